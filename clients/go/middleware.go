package tollhouse

import (
	"context"
	"encoding/json"
	"net/http"
)

type key struct{}

// FromContext returns the decision about a request that passed the middleware.
func FromContext(ctx context.Context) (Decision, bool) {
	decision, known := ctx.Value(key{}).(Decision)
	return decision, known
}

// Refusal returns the HTTP status and JSON for a visitor who may not go on; 0 for who may.
func (d Decision) Refusal() (int, []byte) {
	status := map[string]int{"reject": 403, "throttle": 429, "challenge": 401}[d.Action]
	if status == 0 {
		return 0, nil
	}
	body := map[string]any{"action": d.Action}
	if len(d.Challenge) > 0 {
		body["challenge"] = d.Challenge
	}
	text, _ := json.Marshal(body) // the challenge is JSON that was read
	return status, text
}

// Middleware asks about each request for which event returns one, and refuses, or hands a challenge on.
func (c *Client) Middleware(event func(*http.Request) Event, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := event(r)
		if asked == nil {
			next.ServeHTTP(w, r)
			return
		}
		shown := Event{}
		for field, value := range asked {
			shown[field] = value
		}
		if solution := r.Header.Get("Tollhouse-Solution"); solution != "" {
			shown["challenge.solution"] = solution
		}
		if pass, err := r.Cookie("tollhouse-pass"); err == nil {
			shown["pass.token"] = pass.Value
		}
		decision, err := c.Decide(r.Context(), shown)
		if err != nil {
			c.Logf("tollhouse: %s", err)
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		if status, body := decision.Refusal(); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(body)
			return
		}
		if pass := decision.Pass; pass != nil {
			http.SetCookie(w, &http.Cookie{
				Name: "tollhouse-pass", Value: pass.Token, Path: "/", MaxAge: pass.Seconds, HttpOnly: true,
				SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
			})
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, decision)))
	})
}
