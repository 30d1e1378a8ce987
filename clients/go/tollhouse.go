// Package tollhouse asks a Tollhouse node: within a deadline, again where that helps, and with a decision where no answer comes.
//
//	client := tollhouse.New("http://127.0.0.1:8377", tollhouse.Options{})
//	decision, err := client.Decide(ctx, tollhouse.Event{"user": "ann", "ip": "198.51.100.7"})
package tollhouse

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	mathrand "math/rand"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	jsonType  = "application/json"
	linesType = "application/x-ndjson"
	// The pause before the first try again, and the longest one.
	pause, pauseMax = 50 * time.Millisecond, time.Second
)

// Event has the fields of an event, by name.
type Event = map[string]any

// OnError says what is decided where the node does not decide.
type OnError string

const (
	Allow OnError = ""
	Deny  OnError = "deny"
	Raise OnError = "raise"
)

// Options of a client; zero values are the defaults.
type Options struct {
	Token      string
	Pipeline   string        // the node's first if there is none
	Timeout    time.Duration // for a whole call with all its tries, of a batch for each part; 1 s
	OnError    OnError       // Allow
	Retries    int           // tries after the first; 2, and none if it is negative
	Batch      int           // most lines of a batch's part; 1000
	BatchBytes int           // and most bytes; 4 MiB
	AnswerMax  int64         // most bytes of an answer; 64 MiB
	IDField    string        // the member that names an event, filled in by chance where it is missing; "id", and none if it is "-"
	HTTP       *http.Client  // one of its own
	Logf       func(format string, arguments ...any)
}

// Error is a call without the answer that was wished. Status is the node's; 0 if no whole answer came in time.
type Error struct {
	Status  int
	Detail  string
	Problem json.RawMessage
	Err     error
}

func (e *Error) Error() string { return "tollhouse: " + e.Detail }
func (e *Error) Unwrap() error { return e.Err }

// IsCallers is true if event, token or URL are wrong. OnError is not asked then: strangers could send what fails.
func (e *Error) IsCallers() bool { return e.Status > 0 && e.Status < 500 && !again(e.Status) }

// Reason is a rule that fired.
type Reason struct {
	Name   string         `json:"name"`
	Score  float64        `json:"score"`
	Detail string         `json:"detail"`
	Values map[string]any `json:"values"`
}

// Pass is what a solved challenge earns.
type Pass struct {
	Token   string `json:"token"`
	Seconds int    `json:"seconds"`
}

// Decision is the decision about an event. Error says why the node did not make it.
type Decision struct {
	Action      string          `json:"action"`
	ID          string          `json:"id"`
	EventID     string          `json:"event_id"`
	Score       float64         `json:"score"`
	Probability float64         `json:"probability"`
	Duplicate   bool            `json:"duplicate"`
	Reasons     []Reason        `json:"reasons"`
	Challenge   json.RawMessage `json:"challenge"`
	Pass        *Pass           `json:"pass"`
	Error       string          `json:"error"`
	Warnings    []string        `json:"warnings"`
}

// Label is feedback on a decision.
type Label struct {
	ID    string `json:"id"`
	Class string `json:"class"`
	By    string `json:"by,omitempty"`
}

// Outcome is what a label did; Error is why it was not taken in.
type Outcome struct {
	ID        string   `json:"id"`
	Class     string   `json:"class"`
	Keys      int      `json:"keys"`
	Duplicate bool     `json:"duplicate"`
	Weight    int      `json:"weight"`
	Limited   bool     `json:"limited"`
	Standing  string   `json:"standing"`
	Error     *Problem `json:"error"`
}

// Problem is what is wrong with a line.
type Problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Verified is the outcome of a challenge.
type Verified struct {
	Solved  bool   `json:"solved"`
	Refused string `json:"refused"`
	Pass    *Pass  `json:"pass"`
}

// Client keeps connections: make one for the whole program.
type Client struct {
	Options
	url, query string
}

// New returns a client of the node at a URL.
func New(at string, options Options) *Client {
	c := &Client{Options: options, url: strings.TrimSuffix(at, "/")}
	c.Timeout = or(c.Timeout, time.Second)
	c.Retries = or(c.Retries, 2)
	c.Batch = or(c.Batch, 1000)
	c.BatchBytes = or(c.BatchBytes, 4<<20)
	c.AnswerMax = or(c.AnswerMax, 64<<20)
	c.IDField = or(c.IDField, "id")
	if c.Pipeline != "" {
		c.query = "?" + url.Values{"pipeline": {c.Pipeline}}.Encode()
	}
	if c.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.Proxy, transport.MaxIdleConnsPerHost = nil, 64
		c.HTTP = &http.Client{Transport: transport}
	}
	own := *c.HTTP
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTP = &own
	if c.Logf == nil {
		c.Logf = log.Printf
	}
	return c
}

// Decide asks about one event.
func (c *Client) Decide(ctx context.Context, event Event) (decision Decision, err error) {
	line, err := c.line(event)
	if err != nil {
		return decision, err
	}
	err = c.call(ctx, "/v1/decide"+c.query, line, jsonType, false, func(text []byte) error { return read(text, &decision) })
	if err != nil {
		return c.undecided(err)
	}
	return decision, nil
}

// DecideMany asks about many events, and answers one decision for each, in their order.
func (c *Client) DecideMany(ctx context.Context, events []Event) ([]Decision, error) {
	lines := make([][]byte, len(events))
	for at, event := range events {
		line, err := c.line(event)
		if err != nil {
			return nil, err
		}
		lines[at] = line
	}
	decisions := make([]Decision, 0, len(events))
	for _, part := range c.parts(lines) {
		answers, err := c.lines(ctx, "/v1/decide/batch"+c.query, part)
		for at := range part {
			decision, failure := Decision{}, err
			if err == nil {
				decision, failure = decided(answers[at])
			}
			var refused *Error
			if failure != nil && err == nil && errors.As(failure, &refused) && refused.IsCallers() {
				// A line that is no event spoils no other, and does not pass.
				decision, failure = Decision{Action: "reject", Error: refused.Detail}, nil
			}
			if failure != nil {
				if decision, failure = c.undecided(failure); failure != nil {
					return nil, failure
				}
			}
			decisions = append(decisions, decision)
		}
	}
	return decisions, nil
}

// Feedback says what events really were, and answers one outcome for each label, in their order.
func (c *Client) Feedback(ctx context.Context, labels []Label) ([]Outcome, error) {
	lines := make([][]byte, len(labels))
	for at, label := range labels {
		lines[at], _ = json.Marshal(label) // texts alone
	}
	outcomes := make([]Outcome, 0, len(labels))
	for _, part := range c.parts(lines) {
		answers, err := c.lines(ctx, "/v1/feedback/batch", part)
		if err != nil {
			return outcomes, err
		}
		for _, answer := range answers {
			var outcome Outcome
			if err := json.Unmarshal(answer, &outcome); err != nil {
				return outcomes, &Error{Detail: err.Error(), Err: err}
			}
			outcomes = append(outcomes, outcome)
		}
	}
	return outcomes, nil
}

// Challenge issues a challenge for an event without a decision.
func (c *Client) Challenge(ctx context.Context, event Event) (challenge json.RawMessage, err error) {
	body, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	err = c.call(ctx, "/v1/challenges"+c.query, body, jsonType, false, func(text []byte) error {
		return json.Unmarshal(text, &challenge)
	})
	return challenge, err
}

// Verify takes a solution, which is used up by it.
func (c *Client) Verify(ctx context.Context, payload string, event Event) (verified Verified, err error) {
	body, err := json.Marshal(map[string]any{"payload": payload, "event": event})
	if err != nil {
		return verified, err
	}
	err = c.call(ctx, "/v1/challenges/verify"+c.query, body, jsonType, true, func(text []byte) error {
		return json.Unmarshal(text, &verified)
	})
	return verified, err
}

// call sends until an answer can be read. With once not again where the node may have done it already.
func (c *Client) call(ctx context.Context, path string, body []byte, media string, once bool, read func([]byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for tried := 0; ; tried++ {
		status, after, text, err := c.send(ctx, path, body, media)
		var wait time.Duration
		var failure *Error
		may := !once
		switch {
		case err == nil && status == http.StatusOK:
			if err = read(text); err == nil {
				return nil
			}
			failure = &Error{Detail: path + ": " + err.Error(), Err: err}
		case err == nil:
			var problem Problem
			_ = json.Unmarshal(text, &problem) // there may be none
			failure = &Error{Status: status, Detail: fmt.Sprintf("%s: %d %s", path, status, problem.Detail), Problem: text}
			may = again(status) && (!once || undone(status))
			wait = seconds(after)
		default:
			failure = &Error{Detail: path + ": " + err.Error(), Err: err}
			var refused *net.OpError
			may = may || errors.As(err, &refused) && refused.Op == "dial"
		}
		// All of it by chance, so that those who failed together do not come again together.
		chance := time.Duration(mathrand.Int63n(int64(math.Min(float64(pauseMax), float64(pause)*math.Pow(2, float64(tried))))))
		if chance > wait {
			wait = chance
		}
		deadline, _ := ctx.Deadline()
		if !may || tried >= c.Retries || ctx.Err() != nil || !time.Now().Add(wait).Before(deadline) {
			return failure
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return failure
		}
	}
}

func (c *Client) send(ctx context.Context, path string, body []byte, media string) (int, string, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	// It would be sent again by net/http itself, beside our own tries.
	request.GetBody = nil
	request.Header.Set("Content-Type", media)
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, c.AnswerMax+1))
	if err == nil && int64(len(text)) > c.AnswerMax {
		err = errors.New("the answer is too long")
	}
	return answer.StatusCode, answer.Header.Get("Retry-After"), text, err
}

func (c *Client) undecided(err error) (Decision, error) {
	var failure *Error
	if !errors.As(err, &failure) || c.OnError == Raise || failure.IsCallers() {
		return Decision{}, err
	}
	if c.OnError == Deny {
		c.Logf("tollhouse: deny: %s", failure.Detail)
		return Decision{Action: "reject", Error: failure.Detail}, nil
	}
	c.Logf("tollhouse: allow: %s", failure.Detail)
	return Decision{Action: "accept", Error: failure.Detail}, nil
}

// lines returns an answer to each line: to halves of them where the node does not take so much at once.
func (c *Client) lines(ctx context.Context, path string, lines [][]byte) (answers [][]byte, err error) {
	body := append(bytes.Join(lines, []byte("\n")), '\n')
	err = c.call(ctx, path, body, linesType, false, func(text []byte) error {
		answers = bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
		for _, answer := range answers {
			if !json.Valid(answer) {
				return errors.New("a line is no JSON")
			}
		}
		if len(answers) != len(lines) {
			return errors.New("it does not answer each line")
		}
		return nil
	})
	var failure *Error
	if err == nil || !errors.As(err, &failure) || failure.Status != http.StatusRequestEntityTooLarge {
		return answers, err
	}
	if len(lines) == 1 {
		answer, err := json.Marshal(map[string]any{"line": 1, "error": Problem{failure.Status, failure.Detail}})
		return [][]byte{answer}, err
	}
	first, err := c.lines(ctx, path, lines[:len(lines)/2])
	if err != nil {
		return nil, err
	}
	rest, err := c.lines(ctx, path, lines[len(lines)/2:])
	return append(first, rest...), err
}

func (c *Client) parts(lines [][]byte) (parts [][][]byte) {
	start, size := 0, 0
	for at, line := range lines {
		if at > start && (at-start == c.Batch || size+len(line) >= c.BatchBytes) {
			parts, start, size = append(parts, lines[start:at]), at, 0
		}
		size += len(line) + 1
	}
	if start < len(lines) {
		parts = append(parts, lines[start:])
	}
	return parts
}

// line returns an event with an id, so that it counts once however often it is sent.
func (c *Client) line(event Event) ([]byte, error) {
	if _, named := event[c.IDField]; !named && c.IDField != "-" {
		name := make([]byte, 16)
		if _, err := rand.Read(name); err != nil {
			return nil, err
		}
		copied := Event{c.IDField: hex.EncodeToString(name)}
		for field, value := range event {
			copied[field] = value
		}
		event = copied
	}
	return json.Marshal(event)
}

func read(text []byte, decision *Decision) error {
	*decision = Decision{}
	if err := json.Unmarshal(text, decision); err != nil {
		return err
	}
	if decision.Action == "" {
		return errors.New("it has no action")
	}
	return nil
}

// decided reads a line of a batch's answer.
func decided(line []byte) (decision Decision, err error) {
	var refused struct {
		Line  int     `json:"line"`
		Error Problem `json:"error"`
	}
	if json.Unmarshal(line, &refused) == nil && refused.Line > 0 {
		return decision, &Error{Status: refused.Error.Status, Detail: refused.Error.Detail}
	}
	if err = read(line, &decision); err != nil {
		err = &Error{Detail: err.Error(), Err: err}
	}
	return decision, err
}

// again says whether another try may be answered.
func again(status int) bool {
	return status == 408 || status == 429 || status == 502 || status == 503 || status == 504
}

// undone says whether nothing was done.
func undone(status int) bool { return status == 429 || status == 503 }

// seconds returns what Retry-After says, a number or a date.
func seconds(after string) time.Duration {
	if number, err := strconv.ParseUint(after, 10, 32); err == nil {
		return time.Duration(number) * time.Second
	}
	if date, err := http.ParseTime(after); err == nil {
		return time.Until(date)
	}
	return 0
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
