// Command hello answers every request with a greeting.
package main

import (
	"bufio"
	"net"
	"os"
	"runtime"
	"strconv"
)

func main() {
	listener, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	for {
		if conn, err := listener.Accept(); err == nil {
			go answer(conn)
		}
	}
}

func answer(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "" {
	}
	body := "Hello from " + runtime.Version() + "\n"
	conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n\r\n" + body))
}
