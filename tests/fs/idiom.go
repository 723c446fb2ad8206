// SPDX-License-Identifier: LGPL-2.1-or-later

// The plain Go way: os.OpenFile for both, Write, read to the end.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A command that runs: what is written to its stdin comes back from its stdout, a line at a time.
func live(exec string) {
	request, err := os.OpenFile(filepath.Join(exec, "new"), os.O_RDWR, 0)
	must(err)
	_, err = request.WriteString(`{"command": "while read -r l; do echo $l; done", "stdin_pipe": true}`)
	must(err)
	number, err := io.ReadAll(request)
	must(err)
	must(request.Close())
	command := filepath.Join(exec, strings.TrimSpace(string(number)))
	stdout, err := os.Open(filepath.Join(command, "stdout"))
	must(err)
	lines := bufio.NewReader(stdout)
	stdin, err := os.OpenFile(filepath.Join(command, "stdin"), os.O_WRONLY, 0)
	must(err)
	for _, line := range []string{"one\n", "two\n"} {
		_, err = stdin.WriteString(line)
		must(err)
		if got, err := lines.ReadString('\n'); err != nil || got != line {
			panic(fmt.Sprintf("%v, got %q", err, got))
		}
	}
	must(stdin.Close())
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		panic(fmt.Sprintf("%v, got %q", err, rest))
	}
	must(stdout.Close())
}

func main() {
	live(filepath.Join(filepath.Dir(os.Args[1]), "exec"))
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
