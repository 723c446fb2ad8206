// SPDX-License-Identifier: LGPL-2.1-or-later

// The plain Go way: os.OpenFile for both, Write, read to the end.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

func main() {
	f, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	if _, err = f.Write([]byte("echo a; echo b")); err != nil {
		panic(err)
	}
	reply, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	var result struct{ Stdout string }
	if err = json.Unmarshal(reply, &result); err != nil {
		panic(err)
	}
	if result.Stdout != "a\nb\n" {
		panic(fmt.Sprintf("got %q", result.Stdout))
	}
	if _, err = f.WriteString("echo d"); err != nil {
		panic(err)
	}
	reply = make([]byte, 65536)
	n, err := f.ReadAt(reply, 0)
	if err != nil && err != io.EOF {
		panic(err)
	}
	if err = json.Unmarshal(reply[:n], &result); err != nil || result.Stdout != "d\n" {
		panic(fmt.Sprintf("%v, got %q", err, result.Stdout))
	}
	if err = f.Close(); err != nil {
		panic(err)
	}
	if err = os.WriteFile(os.Args[1], []byte("echo c\n"), 0); err != nil {
		panic(err)
	}
	if reply, err = os.ReadFile(os.Args[1]); err != nil {
		panic(err)
	}
	if err = json.Unmarshal(reply, &result); err != nil || result.Stdout != "c\n" {
		panic(fmt.Sprintf("%v, got %q", err, result.Stdout))
	}
}
