package reaper_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/reaper"
)

func TestFirstPassIsAtOnceAndThenByTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		synctest.Wait()
		if n := b.loop.Status().Passes; n != 1 {
			t.Fatalf("%d passes at the start, want 1", n)
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		s := b.loop.Status()
		if s.Passes != 11 || s.Coalesced != 0 {
			t.Errorf("%d passes, %d coalesced after 10 minutes, want 11 and 0", s.Passes, s.Coalesced)
		}
		if want := b.start.Add(11 * time.Minute); !s.Next.Equal(want) {
			t.Errorf("next at %s, want %s", s.Next, want)
		}
	})
}

func TestWallClockStepsNeverStallTheLoop(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -365 * 24 * time.Hour, time.Hour, 365 * 24 * time.Hour, 30 * time.Second, -30 * time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.run()()
				time.Sleep(150 * time.Second)
				synctest.Wait()
				before := b.loop.Status().Passes
				b.step(step)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				s := b.loop.Status()
				if n := s.Passes - before; n < 9 || n > 12 {
					t.Errorf("%d passes in the 10 minutes after the step, want about 10", n)
				}
				if s.Coalesced > 1 {
					t.Errorf("%d moments coalesced: time that was only jumped over counts", s.Coalesced)
				}
				want := 1
				if step.Abs() <= 30*time.Second {
					want = 0
				}
				if n := len(b.mem.kinds("clock-step")); n != want {
					t.Errorf("%d events clock-step, want %d", n, want)
				}
			})
		})
	}
}

// yearly fires far ahead: only the janitor's own clock may wake it early.
type yearly struct{}

func (yearly) Next(t time.Time) time.Time { return t.Truncate(time.Hour).AddDate(1, 0, 0) }

func TestPokesDuringAPassShareOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.schedule = yearly{}
		b.renew()
		b.world.set(func(ctx context.Context, op string, _ []string) error {
			if op == "observe" {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		defer b.run()()
		time.Sleep(time.Second)
		for range 100 {
			b.loop.Poke()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := b.loop.Status(); s.Passes != 2 || s.Coalesced != 99 {
			t.Errorf("%d passes, %d coalesced, want 2 and 99", s.Passes, s.Coalesced)
		}
	})
}

func TestPokesWithoutEndLeavePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.schedule = yearly{}
		b.renew()
		defer b.run()()
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			b.loop.Poke()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s := b.loop.Status()
		if s.Passes > 52 || s.Passes < 40 {
			t.Errorf("%d passes in 10 s of pokes, want one in 200 ms", s.Passes)
		}
		if got := s.Passes - 1 + s.Coalesced; got != 1000 {
			t.Errorf("%d pokes are accounted for, want 1000", got)
		}
	})
}

func TestScheduleMomentsDuringAPassAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		row := b.register("a", "alice")
		b.world.create("a", "https://127.0.0.1:1", "a1")
		b.timeout = 4*time.Minute + 30*time.Second
		b.renew()
		defer b.run()()
		synctest.Wait()
		b.release(row)
		b.world.set(hang("remove"))
		b.loop.Poke()
		time.Sleep(4*time.Minute + 50*time.Second) // moments 1, 2, 3, 4 fall into the pass
		synctest.Wait()
		if s := b.loop.Status(); s.Passes != 3 || s.Coalesced != 3 {
			t.Errorf("%d passes, %d coalesced, want 3 and 3", s.Passes, s.Coalesced)
		}
	})
}

func TestARequestedPassBeginsAfterTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.schedule = yearly{}
		b.renew()
		b.world.set(func(context.Context, string, []string) error { time.Sleep(time.Second); return nil })
		defer b.run()()
		time.Sleep(500 * time.Millisecond) // the first pass has observed nothing yet
		asked := b.now().Wall
		reports := make(chan reaper.Report)
		for range 5 {
			go func() {
				r, err := b.loop.Pass(t.Context())
				if err != nil {
					t.Errorf("Pass: %v", err)
				}
				reports <- r
			}()
		}
		for range 5 {
			if r := <-reports; !r.StartedAt.After(asked) {
				t.Errorf("the pass began at %s, before it was asked for at %s", r.StartedAt, asked)
			}
		}
		if s := b.loop.Status(); s.Passes != 2 || s.Coalesced != 4 {
			t.Errorf("%d passes, %d coalesced, want 2 and 4", s.Passes, s.Coalesced)
		}
	})
}

func TestWhoAsksIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.run()
		b.world.set(hang("observe"))
		b.loop.Poke()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.loop.Pass(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller who gives up gets %v", err)
		}
		answer := make(chan error, 1)
		go func() { _, err := b.loop.Pass(t.Context()); answer <- err }()
		time.Sleep(time.Second)
		stop()
		if err := <-answer; !errors.Is(err, reaper.ErrStopped) {
			t.Errorf("a caller gets %v when the loop stops, want ErrStopped", err)
		}
		if _, err := b.loop.Apply(t.Context(), nil, "uid:0"); !errors.Is(err, reaper.ErrStopped) {
			t.Errorf("a caller gets %v after the loop stopped, want ErrStopped", err)
		}
	})
}

// hang makes calls of one kind hang until their deadline.
func hang(what string) func(context.Context, string, []string) error {
	return func(ctx context.Context, op string, _ []string) error {
		if op != what {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func TestTheWatchdogHearsALoopThatWaitsWithinItsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		row := b.register("a", "alice")
		b.world.create("a", "https://127.0.0.1:1", "a1")
		defer b.run()()
		synctest.Wait()
		b.release(row)
		b.world.set(hang("remove"))
		b.loop.Poke()
		for range 9 {
			before := b.progressed()
			time.Sleep(12 * time.Second)
			if b.progressed() == before {
				t.Fatal("12 s without a sign of life while a removal is within its deadline")
			}
		}
	})
}

func TestTheWatchdogHearsNothingOfAStuckLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := make(chan struct{})
		b.world.set(func(_ context.Context, op string, _ []string) error {
			if op == "observe" {
				<-release // no deadline moves it
			}
			return nil
		})
		stop := b.run()
		time.Sleep(2 * time.Minute)
		before := b.progressed()
		time.Sleep(10 * time.Minute)
		if n := b.progressed() - before; n != 0 {
			t.Errorf("%d signs of life of a loop that is stuck", n)
		}
		close(release)
		stop()
	})
}

func TestAnIdleLoopGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.schedule = yearly{}
		b.renew()
		defer b.run()()
		synctest.Wait()
		before := b.progressed()
		time.Sleep(time.Minute)
		if n := b.progressed() - before; n < 5 {
			t.Errorf("%d signs of life in an idle minute", n)
		}
		if n := b.loop.Status().Passes; n != 1 {
			t.Errorf("%d passes, want the first only", n)
		}
	})
}
