// A static Go program (CGO off, so Go's own system calls and its own poller) as HTTP server and client.
//
//	http serve ADDRESS FILE          serves FILE at /file and answers POST /sum with the sha256 of the body
//	http fetch URL COUNT FILE        COUNT goroutines fetch URL/file at once and post FILE to URL/sum; prints sums
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) == 5 && os.Args[1] == "fetch":
		err = fetch(os.Args[2], os.Args[3], os.Args[4])
	default:
		err = fmt.Errorf("usage: http serve ADDRESS FILE | http fetch URL COUNT FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		sum, err := sumOf(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, sum)
	})
	fmt.Println("listening", listener.Addr())
	return http.Serve(listener, mux)
}

func fetch(url, countText, file string) error {
	count, err := strconv.Atoi(countText)
	if err != nil {
		return err
	}
	upload, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// A connection per goroutine, kept for its second request.
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: count, Proxy: nil},
	}
	sums := make([]string, count)
	errors := make([]error, count)
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			sums[i], errors[i] = fetchOne(client, url, upload)
		}(i)
	}
	group.Wait()
	for i := range sums {
		if errors[i] != nil {
			return errors[i]
		}
		fmt.Println(sums[i])
	}
	return nil
}

// fetchOne returns the sum of what was fetched and the sum that the server made of the upload.
func fetchOne(client *http.Client, url string, upload []byte) (string, error) {
	response, err := client.Get(url + "/file")
	if err != nil {
		return "", err
	}
	fetched, err := sumOf(response.Body)
	response.Body.Close()
	if err != nil {
		return "", err
	}
	response, err = client.Post(url+"/sum", "application/octet-stream", bytes.NewReader(upload))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	posted, err := io.ReadAll(response.Body)
	return fetched + " " + string(posted), err
}

func sumOf(reader io.Reader) (string, error) {
	hash := sha256.New()
	_, err := io.Copy(hash, reader)
	return hex.EncodeToString(hash.Sum(nil)), err
}
