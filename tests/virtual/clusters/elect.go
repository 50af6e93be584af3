// As elect.py; it draws from the date in milliseconds and its process id, as many programs do.
package main

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"strings"
	"time"
)

const port = 7000

func main() {
	drawn := rand.New(rand.NewSource(time.Now().UnixMilli()*65536 + int64(os.Getpid())))
	name, peers := os.Args[1], os.Args[2:]
	talk, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	term, voted, leader := 0, "", ""
	votes, known := map[string]bool{}, time.Time{}
	patience := func() time.Time { return time.Now().Add(time.Duration(150+drawn.Intn(150)) * time.Millisecond) }
	tell := func(word string, to ...string) {
		for _, peer := range to {
			if address, err := net.ResolveUDPAddr("udp4", fmt.Sprintf("%s:%d", peer, port)); err == nil {
				talk.WriteToUDP([]byte(fmt.Sprintf("%s %d %s", word, term, name)), address)
			}
		}
	}
	begun, next := time.Now(), patience()
	for time.Since(begun) < 20*time.Second {
		if !known.IsZero() && time.Since(known) > 2*time.Second {
			fmt.Println("leader", leader)
			return
		}
		talk.SetReadDeadline(next)
		buffer := make([]byte, 100)
		count, _, err := talk.ReadFromUDP(buffer)
		if err != nil {
			if leader == name {
				tell("lead", peers...)
				next = time.Now().Add(50 * time.Millisecond)
			} else {
				term, voted, leader, votes, next = term+1, name, "", map[string]bool{name: true}, patience()
				tell("vote", peers...)
			}
			continue
		}
		var word, other string
		var otherTerm int
		fmt.Sscan(strings.TrimSpace(string(buffer[:count])), &word, &otherTerm, &other)
		if otherTerm > term {
			term, voted, leader, votes = otherTerm, "", "", map[string]bool{}
		}
		if otherTerm < term {
			continue
		}
		switch {
		case word == "vote" && (voted == "" || voted == other):
			voted, next = other, patience()
			tell("yes", other)
		case word == "yes":
			votes[other] = true
			if leader == "" && len(votes) > (len(peers)+1)/2 {
				leader, next = name, time.Now()
				if known.IsZero() {
					known = time.Now()
				}
			}
		case word == "lead":
			leader, next = other, patience()
			if known.IsZero() {
				known = time.Now()
			}
		}
	}
	fmt.Println("nobody leads after", term, "terms")
	os.Exit(1)
}
