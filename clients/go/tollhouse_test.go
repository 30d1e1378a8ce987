package tollhouse

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The server of ../cases/server.py plays the cases; TOLLHOUSE_FAULTS is its URL.
type testCase struct {
	Name   string          `json:"name"`
	Call   string          `json:"call"`
	Input  json.RawMessage `json:"input"`
	Expect map[string]any  `json:"expect"`
	Client struct {
		Token      string  `json:"token"`
		Pipeline   string  `json:"pipeline"`
		Timeout    float64 `json:"timeout"`
		OnError    string  `json:"on_error"`
		Retries    *int    `json:"retries"`
		Batch      int     `json:"batch"`
		BatchBytes int     `json:"batch_bytes"`
		AnswerMax  int64   `json:"answer_max"`
	} `json:"client"`
}

func (one testCase) options() Options {
	given := one.Client
	options := Options{
		Token: given.Token, Pipeline: given.Pipeline, Timeout: 30 * time.Second, OnError: OnError(given.OnError),
		Batch: given.Batch, BatchBytes: given.BatchBytes, AnswerMax: given.AnswerMax, Logf: func(string, ...any) {},
	}
	switch given.OnError {
	case "allow":
		options.OnError = Allow
	case "":
		options.OnError = Raise
	}
	if given.Timeout > 0 {
		options.Timeout = time.Duration(given.Timeout * float64(time.Second))
	}
	if given.Retries != nil {
		if options.Retries = *given.Retries; options.Retries == 0 {
			options.Retries = -1
		}
	}
	return options
}

type seenRequest struct {
	Path          string `json:"path"`
	Authorization string `json:"authorization"`
	Lines         int    `json:"lines"`
	IDs           []any  `json:"ids"`
	Shown         []any  `json:"shown"`
}

func faults(t *testing.T) string {
	t.Helper()
	url := os.Getenv("TOLLHOUSE_FAULTS")
	if url == "" {
		t.Skip("TOLLHOUSE_FAULTS is not set")
	}
	return url
}

func ask(t *testing.T, path string, into any) {
	t.Helper()
	answer, err := http.Post(faults(t)+path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, number int) (url string, seen func() []seenRequest) {
	t.Helper()
	var opened struct {
		URL  string `json:"url"`
		Port int    `json:"port"`
	}
	ask(t, "/open/"+strconv.Itoa(number), &opened)
	return opened.URL, func() (seen []seenRequest) {
		ask(t, "/seen/"+strconv.Itoa(opened.Port), &seen)
		return seen
	}
}

func table(t *testing.T) (cases []testCase) {
	t.Helper()
	text, err := os.ReadFile("../cases/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func input[T any](t *testing.T, one testCase) (value T) {
	t.Helper()
	if err := json.Unmarshal(one.Input, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// plain returns a value as JSON has it.
func plain(t *testing.T, value any) (read any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func answered(t *testing.T, client *Client, one testCase) (map[string]any, error) {
	ctx := context.Background()
	came := map[string]any{}
	switch one.Call {
	case "decide":
		decision, err := client.Decide(ctx, input[Event](t, one))
		came["action"], came["error"] = decision.Action, decision.Error != ""
		came["decided"], came["duplicate"], came["id"] = decision.ID != "", decision.Duplicate, decision.ID
		if len(decision.Challenge) > 0 {
			came["challenge"] = decision.Challenge
		}
		if decision.Pass != nil {
			came["pass"] = decision.Pass
		}
		return came, err
	case "decide_many":
		decisions, err := client.DecideMany(ctx, input[[]Event](t, one))
		actions, made, wrong := []string{}, []bool{}, []bool{}
		for _, decision := range decisions {
			actions, made = append(actions, decision.Action), append(made, decision.ID != "")
			wrong = append(wrong, decision.Error != "")
		}
		came["actions"], came["decided"], came["errors"] = actions, made, wrong
		return came, err
	case "feedback":
		outcomes, err := client.Feedback(ctx, input[[]Label](t, one))
		wrong := []bool{}
		for _, outcome := range outcomes {
			wrong = append(wrong, outcome.Error != nil)
		}
		came["outcomes"], came["errors"] = len(outcomes), wrong
		return came, err
	case "challenge":
		challenge, err := client.Challenge(ctx, input[Event](t, one))
		came["answer"], came["given"] = challenge, len(challenge) > 0
		return came, err
	case "verify":
		verified, err := client.Verify(ctx, "payload", input[Event](t, one))
		answer := map[string]any{"solved": verified.Solved}
		if verified.Refused != "" {
			answer["refused"] = verified.Refused
		}
		if verified.Pass != nil {
			answer["pass"] = verified.Pass
		}
		came["answer"] = answer
		return came, err
	}
	t.Fatalf("no call %s", one.Call)
	return nil, nil
}

// outcome asks, and returns what came of it by the names that expectations have.
func outcome(t *testing.T, url string, one testCase, options Options) (map[string]any, error) {
	t.Helper()
	came, err := answered(t, New(url, options), one)
	var failure *Error
	if errors.As(err, &failure) {
		came = map[string]any{"raises": failure.Status}
	} else if err != nil {
		t.Fatal(err)
	}
	return came, err
}

func compare(t *testing.T, came, expect map[string]any, err error) {
	t.Helper()
	if _, raises := expect["raises"]; raises != (err != nil) {
		t.Errorf("raises: %v", err)
	}
	got := plain(t, came).(map[string]any)
	for name, value := range expect {
		if !reflect.DeepEqual(got[name], value) {
			t.Errorf("%s: %v, and not %v", name, got[name], value)
		}
	}
}

func TestCases(t *testing.T) {
	for number, one := range table(t) {
		t.Run(one.Name, func(t *testing.T) {
			url, seen := open(t, number)
			began := time.Now()
			came, err := outcome(t, url, one, one.options())
			took := time.Since(began).Seconds()
			least, _ := one.Expect["seconds_min"].(float64)
			// A server that hangs does so for ten minutes.
			if took > 100 || took < least {
				t.Errorf("%v s", took)
			}
			requests := seen()
			lines, ids := []int{}, []any{}
			for _, request := range requests {
				lines, ids = append(lines, request.Lines), append(ids, request.IDs...)
				first := requests[0].IDs
				if one.Expect["one_id"] == true && (first[0] == nil || !reflect.DeepEqual(request.IDs, first)) {
					t.Errorf("%v is sent again as %v", first, request.IDs)
				}
				came["path"], came["authorization"] = requests[0].Path, requests[0].Authorization
			}
			came["requests"], came["lines"], came["ids"] = len(requests), lines, ids
			delete(one.Expect, "seconds_min")
			delete(one.Expect, "one_id")
			compare(t, came, one.Expect, err)
		})
	}
}

// Asks a real node; then goes on asking while somebody kills it and starts it again.
func TestNode(t *testing.T) {
	url, token := os.Getenv("TOLLHOUSE_NODE"), os.Getenv("TOLLHOUSE_NODE_TOKEN")
	if url == "" {
		t.Skip("TOLLHOUSE_NODE is not set")
	}
	text, err := os.ReadFile("../cases/live.json")
	if err != nil {
		t.Fatal(err)
	}
	run, decided := strconv.FormatInt(time.Now().UnixNano(), 36), ""
	for number := 0; ; number++ {
		names := strings.NewReplacer("$run", run, "$large", strings.Repeat("x", 100_000), "$decided", decided)
		var cases []testCase
		if err := json.Unmarshal([]byte(names.Replace(string(text))), &cases); err != nil {
			t.Fatal(err)
		}
		if number == len(cases) {
			break
		}
		options := cases[number].options()
		if options.Token == "" {
			options.Token = token
		}
		t.Run(cases[number].Name, func(t *testing.T) {
			came, err := outcome(t, url, cases[number], options)
			if id, known := came["id"].(string); known {
				decided = id
			}
			compare(t, came, cases[number].Expect, err)
		})
	}
	client := New(url, Options{Token: token, Pipeline: "web", Timeout: 100 * time.Second, Retries: 100_000, OnError: Raise})
	for number := 1; number <= 60; number++ {
		event := Event{"client.ip": "192.0.2.3", "http.path": "/" + strconv.Itoa(number)}
		if _, err := client.Decide(context.Background(), event); err != nil {
			t.Fatal(err)
		}
		// At once, which the test's own log is not.
		os.Stdout.WriteString(strconv.Itoa(number) + " asked\n")
	}
}

func TestMiddleware(t *testing.T) {
	cases := table(t)
	visit := func(name string, headers map[string]string) (*httptest.ResponseRecorder, []seenRequest) {
		for number, one := range cases {
			if one.Name != name {
				continue
			}
			url, seen := open(t, number)
			handler := New(url, one.options()).Middleware(func(r *http.Request) Event {
				if r.Header.Get("X-Asks") != "yes" {
					return nil
				}
				return Event{"ip": "192.0.2.1"}
			}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				decision, known := FromContext(r.Context())
				_ = json.NewEncoder(w).Encode(map[string]any{"known": known, "action": decision.Action})
			}))
			request, answer := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			for field, value := range headers {
				request.Header.Set(field, value)
			}
			handler.ServeHTTP(answer, request)
			return answer, seen()
		}
		t.Fatalf("no case %q", name)
		return nil, nil
	}
	headers := map[string]string{"X-Asks": "yes", "Tollhouse-Solution": "abc", "Cookie": "a=b; tollhouse-pass=p0"}
	for _, one := range []struct {
		name   string
		status int
		handed string
	}{
		{"an answer", 200, ""},
		{"an error of the node itself goes by on_error at once", 403, ""},
		{"a challenge is handed on", 401, "challenge"},
		{"a pass is handed on", 200, "pass"},
		{"a wrong token is the caller's fault", 500, ""},
	} {
		answer, seen := visit(one.name, headers)
		if answer.Code != one.status {
			t.Errorf("%s: %d", one.name, answer.Code)
		}
		if strings.Contains(answer.Body.String(), `"challenge":{`) != (one.handed == "challenge") {
			t.Errorf("%s: %s", one.name, answer.Body)
		}
		if strings.Contains(answer.Header().Get("Set-Cookie"), "tollhouse-pass=p1") != (one.handed == "pass") {
			t.Errorf("%s: %v", one.name, answer.Header())
		}
		if !reflect.DeepEqual(seen[0].Shown, []any{"abc", "p0"}) {
			t.Errorf("%s: %v", one.name, seen[0].Shown)
		}
	}
	if answer, seen := visit("no answer in time, deny", nil); answer.Code != 200 || len(seen) != 0 {
		t.Errorf("nobody is asked about a request without an event: %d %v", answer.Code, seen)
	}
	if status, _ := (Decision{Action: "shadow"}).Refusal(); status != 0 {
		t.Errorf("who is shadowed is not told: %d", status)
	}
}
