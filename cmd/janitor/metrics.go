package main

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/store"
)

// metrics serves what the service knows, read when it is asked for: nothing is
// counted twice and nothing is kept in globals.
func (s *service) metrics() http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&collector{s: s})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

type collector struct{ s *service }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("janitor_"+name, help, labels, nil)
}

var (
	clustersDesc  = desc("clusters", "Rows of the inventory by state.", "state")
	passesDesc    = desc("passes_total", "Passes since the start of the service.")
	coalescedDesc = desc("passes_coalesced_total", "Moments of the schedule, pokes and requests that shared another's pass.")
	durationDesc  = desc("last_pass_duration_seconds", "How long the last pass took.")
	lastGoodDesc  = desc("last_good_pass_timestamp_seconds", "When a pass last ended without an error.")
	engineDesc    = desc("engine_up", "Whether the last pass could list the Docker engine's containers.")
	brakeDesc     = desc("brake_orphans", "Orphans that wait for an operator under the brake.")
	stuckDesc     = desc("stuck_clusters", "Clusters whose removal has failed again and again.")
	heldDesc      = desc("held_clusters", "Clusters under a hold.")
	decisionsDesc = desc("last_pass_decisions", "Decisions of the last pass by verdict and reason.", "verdict", "reason")
	databaseDesc  = desc("database_size_bytes", "Size of the database, its write-ahead log included.")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clustersDesc, passesDesc, coalescedDesc, durationDesc, lastGoodDesc, engineDesc,
		brakeDesc, stuckDesc, heldDesc, decisionsDesc, databaseDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	st := c.s.loop.Status()
	ch <- prometheus.MustNewConstMetric(passesDesc, prometheus.CounterValue, float64(st.Passes))
	ch <- prometheus.MustNewConstMetric(coalescedDesc, prometheus.CounterValue, float64(st.Coalesced))
	gauge(durationDesc, st.Last.EndedAt.Sub(st.Last.StartedAt).Seconds())
	if !st.LastGood.IsZero() {
		gauge(lastGoodDesc, float64(st.LastGood.UnixMilli())/1000)
	}
	up := 0.0
	if st.Passes > 0 && st.Blind == "" {
		up = 1
	}
	gauge(engineDesc, up)
	gauge(brakeDesc, float64(st.BrakeCount))
	gauge(databaseDesc, float64(c.s.db.Size()))

	type kind struct{ verdict, reason string }
	decisions := map[kind]int{}
	for _, d := range st.Last.Decisions {
		decisions[kind{string(d.Verdict), string(d.Reason)}]++
	}
	for k, n := range decisions {
		gauge(decisionsDesc, float64(n), k.verdict, k.reason)
	}
	if counts, err := c.s.db.Counts(ctx); err == nil {
		for _, state := range []inventory.State{inventory.Active, inventory.Released, inventory.Reaping, inventory.Closed} {
			gauge(clustersDesc, float64(counts[state]), string(state))
		}
	}
	if rows, err := c.s.db.Clusters(ctx, store.Filter{}); err == nil {
		stuck, held, p, now := 0, 0, c.s.set.policy(), c.s.clock.Now().At
		for _, r := range rows {
			if r.StuckUnder(p) {
				stuck++
			}
			if r.Hold != nil && now < r.Hold.Until {
				held++
			}
		}
		gauge(stuckDesc, float64(stuck))
		gauge(heldDesc, float64(held))
	}
}
