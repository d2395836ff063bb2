// Repeatedly validates an ID Token, or an access token (ALGORITHM api-RS256), with go-oidc, and prints the nanoseconds per validation:
//
//	peer FOLDER ALGORITHM SECONDS
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	folder, algorithm := os.Args[1], os.Args[2]
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	keys, err := os.ReadFile(folder + "/jwks.json")
	check(err)
	raw, err := os.ReadFile(folder + "/" + algorithm + ".jwt")
	check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Write(keys)
	}))
	defer server.Close()
	background := context.Background()
	isAPI := strings.HasPrefix(algorithm, "api-")
	audience := "client"
	if isAPI {
		audience = "https://api.example.com"
	}
	verifier := oidc.NewVerifier("https://id.example.com", oidc.NewRemoteKeySet(background, server.URL),
		&oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{"RS256", "ES256"}})
	token := string(raw)
	work := func() {
		verified, err := verifier.Verify(background, token)
		check(err)
		if !isAPI && verified.Nonce != "nonce" {
			panic("nonce")
		}
	}
	for i := 0; i < 200; i++ {
		work()
	}
	start, count := time.Now(), 0
	for time.Since(start).Seconds() < seconds {
		for i := 0; i < 50; i++ {
			work()
		}
		count += 50
	}
	fmt.Println(float64(time.Since(start).Nanoseconds()) / float64(count))
}
