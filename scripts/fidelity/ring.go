// Four goroutines behind channels of two, and an HTTP server that one more asks.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

func work(n int) (sum int) {
	for k := 0; k < 20000; k++ {
		sum += k * n
	}
	return
}

func main() {
	var group sync.WaitGroup
	channels := make([]chan int, 4)
	for k := range channels {
		channels[k] = make(chan int, 2)
	}
	for k := 0; k < 4; k++ {
		group.Add(1)
		go func(k int) {
			defer group.Done()
			for n := range channels[k] {
				n += work(n)
				if k < 3 {
					channels[k+1] <- n
				}
			}
			if k < 3 {
				close(channels[k+1])
			}
		}(k)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, work(7)) }))
	for n := 0; n < 2000; n++ {
		channels[0] <- n
		if n%10 == 0 {
			answer, err := http.Get("http://" + listener.Addr().String())
			if err != nil {
				panic(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
	close(channels[0])
	group.Wait()
}
