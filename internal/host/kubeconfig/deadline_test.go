package kubeconfig

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A step that hangs in the kernel is left behind, and its file alone until it
// comes back.
func TestHangingStep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang, back := make(chan struct{}), make(chan struct{})
	go cancel()
	_, err := within(ctx, "/hung", func(context.Context) (int, error) {
		defer close(back)
		<-hang
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	one := func(context.Context) (int, error) { return 1, nil }
	if _, err := within(t.Context(), "/hung", one); !errors.Is(err, ErrHanging) {
		t.Errorf("while it hangs: %v", err)
	}
	if v, err := within(t.Context(), "/other", one); v != 1 || err != nil {
		t.Errorf("another file: %v, %v", v, err)
	}
	close(hang)
	<-back
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if v, err := within(t.Context(), "/hung", one); v == 1 && err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the file stays blocked")
		}
	}
}
