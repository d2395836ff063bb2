// Flows with x/oauth2 and go-oidc:
//
//	flows callback FOLDER SECONDS   nanoseconds from an authorization request to validated tokens, with an in-memory transport
//	flows fresh FOLDER SECONDS      nanoseconds to get one fresh token from memory
//	flows waiters FOLDER            1,000 goroutines request a token that has expired: number of token requests, and milliseconds
//	flows sign-in ISSUER            signs in at the bundled provider through its forms, and prints the subject
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc"
	"golang.org/x/oauth2"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var nonce = strings.Repeat("A", 43)

// provider answers in memory.
type provider struct {
	keys, idToken string
	delay         time.Duration
	requests      atomic.Int64
}

func (p *provider) RoundTrip(request *http.Request) (*http.Response, error) {
	body := p.keys
	if request.URL.Path == "/token" {
		p.requests.Add(1)
		io.ReadAll(request.Body)
		time.Sleep(p.delay)
		body = `{"access_token": "access", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh", "id_token": "` + p.idToken + `"}`
	}
	header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"max-age=3600"}}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(bytes.NewBufferString(body)), Request: request}, nil
}

func random() string {
	bytes := make([]byte, 32)
	_, err := rand.Read(bytes)
	check(err)
	return base64.RawURLEncoding.EncodeToString(bytes)
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func measure(text string, work func()) {
	seconds, err := strconv.ParseFloat(text, 64)
	check(err)
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

func main() {
	if os.Args[1] == "sign-in" {
		signIn(os.Args[2])
		return
	}
	keys, err := os.ReadFile(os.Args[2] + "/jwks.json")
	check(err)
	raw, err := os.ReadFile(os.Args[2] + "/callback.jwt")
	check(err)
	provider := &provider{keys: string(keys), idToken: string(raw)}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: provider})
	config := oauth2.Config{ClientID: "client", ClientSecret: "secret", RedirectURL: "https://app.example.com/callback",
		Scopes:   []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: "https://id.example.com/authorize", TokenURL: "https://id.example.com/token"}}
	switch os.Args[1] {
	case "callback":
		verifier := oidc.NewVerifier("https://id.example.com", oidc.NewRemoteKeySet(ctx, "https://id.example.com/jwks"),
			&oidc.Config{ClientID: "client"})
		measure(os.Args[3], func() {
			proof := random()
			address := config.AuthCodeURL(random(), oidc.Nonce(nonce), oauth2.SetAuthURLParam("code_challenge", challenge(proof)),
				oauth2.SetAuthURLParam("code_challenge_method", "S256"))
			if address == "" {
				panic("no address")
			}
			token, err := config.Exchange(ctx, "code", oauth2.SetAuthURLParam("code_verifier", proof))
			check(err)
			verified, err := verifier.Verify(ctx, token.Extra("id_token").(string))
			check(err)
			if verified.Nonce != nonce {
				panic("nonce")
			}
		})
	case "fresh":
		source := config.TokenSource(ctx, &oauth2.Token{AccessToken: "access", RefreshToken: "refresh", Expiry: time.Now().Add(time.Hour)})
		measure(os.Args[3], func() {
			_, err := source.Token()
			check(err)
		})
	case "waiters":
		provider.delay = 20 * time.Millisecond
		source := config.TokenSource(ctx, &oauth2.Token{AccessToken: "old", RefreshToken: "refresh", Expiry: time.Now().Add(-time.Hour)})
		var group sync.WaitGroup
		start := time.Now()
		for i := 0; i < 1000; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				_, err := source.Token()
				check(err)
			}()
		}
		group.Wait()
		fmt.Println(provider.requests.Load(), float64(time.Since(start).Microseconds())/1000)
	}
}

func signIn(issuer string) {
	ctx := context.Background()
	provider, err := oidc.NewProvider(ctx, issuer)
	check(err)
	redirect := "http://127.0.0.1:8765/callback"
	config := oauth2.Config{ClientID: "authflow-demo", RedirectURL: redirect, Endpoint: provider.Endpoint(),
		Scopes: []string{"openid", "profile", "email"}}
	state, nonce, proof := random(), random(), random()
	address := config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.SetAuthURLParam("code_challenge", challenge(proof)),
		oauth2.SetAuthURLParam("code_challenge_method", "S256"))
	jar, err := cookiejar.New(nil)
	check(err)
	var response url.Values
	client := &http.Client{Jar: jar, CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if strings.HasPrefix(request.URL.String(), redirect) {
			response = request.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := client.Get(address)
	check(err)
	form := regexp.MustCompile(`(?s)<form method="post" action="([^"]*)">(.*?)</form>`)
	field := regexp.MustCompile(`name="([^"]*)"(?: value="([^"]*)")?`)
	for i := 0; i < 5 && response == nil; i++ {
		text, err := io.ReadAll(page.Body)
		check(err)
		found := form.FindSubmatch(text)
		values := url.Values{}
		for _, each := range field.FindAllSubmatch(found[2], -1) {
			if values.Get(string(each[1])) == "" {
				values.Set(string(each[1]), string(each[2]))
			}
		}
		if values.Has("username") {
			values.Set("username", "alice")
			values.Set("password", "wonderland")
		}
		page, err = client.PostForm(issuer+string(found[1]), values)
		check(err)
	}
	if response.Get("state") != state {
		panic("state")
	}
	token, err := config.Exchange(ctx, response.Get("code"), oauth2.SetAuthURLParam("code_verifier", proof))
	check(err)
	verified, err := provider.Verifier(&oidc.Config{ClientID: "authflow-demo", SupportedSigningAlgs: []string{"RS256", "ES256"}}).Verify(ctx, token.Extra("id_token").(string))
	check(err)
	if verified.Nonce != nonce {
		panic("nonce")
	}
	fmt.Println(verified.Subject)
}
