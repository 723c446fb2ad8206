// SPDX-License-Identifier: LGPL-2.1-or-later

// What an agent's harness does, in Go, with plain file calls: arguments = mount, trajectory.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

type result struct {
	Stdout     string
	Returncode *int
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ask(path, request string, reply any) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(err)
	defer f.Close()
	_, err = f.WriteString(request)
	must(err)
	text, err := io.ReadAll(f)
	must(err)
	must(json.Unmarshal(text, reply))
}

func main() {
	mount, trajectory := os.Args[1], os.Args[2]
	here := mount + "/leases/" + trajectory
	must(os.Mkdir(here, 0755))
	must(os.MkdirAll(here+"/fs/workspace/src/deep", 0755))
	must(os.WriteFile(here+"/fs/workspace/src/words.txt", []byte("pear\napple\nfig\n"), 0644))
	var sorted result
	ask(here+"/run_command", `{"command": "LC_ALL=C sort words.txt > deep/sorted.txt; exit 3", "cwd": "/workspace/src"}`, &sorted)
	if sorted.Returncode == nil || *sorted.Returncode != 3 {
		panic(fmt.Sprintf("%+v", sorted))
	}
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			var echoed result
			ask(here+"/run_command", fmt.Sprintf("echo %d", i), &echoed)
			if strings.TrimSpace(echoed.Stdout) != fmt.Sprint(i) {
				panic(echoed.Stdout)
			}
		}(i)
	}
	group.Wait()
	text, err := os.ReadFile(here + "/fs/workspace/src/deep/sorted.txt")
	must(err)
	if string(text) != "apple\nfig\npear\n" {
		panic(string(text))
	}
	must(os.Remove(here))
	fmt.Println("done")
}
