package inventory

import "slices"

// Reconsider decides anew about the names of a saved plan, with the brake and
// the dry run lifted, and splits the outcome: what is carried out, being again
// what was saved under the same version of the row and with the same
// containers, and what is skipped, with today's reason.
func Reconsider(p Policy, recs Records, seen Observation, now Stamp, saved []Decision) (apply, skipped []Decision) {
	p.DryRun = false
	p.MaxPerHour = 1<<31 - 1
	type key struct{ name, file string }
	today := map[key]Decision{}
	for _, d := range Plan(p, recs, seen, now) {
		today[key{d.Name, d.File}] = d
	}
	for _, was := range saved {
		wanted := was.Verdict
		if was.Would != "" {
			wanted = was.Would
		}
		if wanted == Keep {
			continue
		}
		is, ok := today[key{was.Name, was.File}]
		switch {
		case !ok:
			skipped = append(skipped, Decision{Name: was.Name, File: was.File, Lease: was.Lease, Verdict: Keep, Reason: Vanished})
		case is.Verdict == wanted && is.Row == was.Row && is.Version == was.Version &&
			is.Lease == was.Lease && is.Server == was.Server && slices.Equal(is.Nodes, was.Nodes):
			apply = append(apply, is)
		default:
			skipped = append(skipped, is)
		}
	}
	return apply, skipped
}
