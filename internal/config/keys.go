package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// setting is one key: a leaf of Config.
type setting struct {
	key     string // lease.max_ttl
	target  any    // pointer to the field
	restart bool
}

// variable is the name of the environment variable that sets the key.
func (s setting) variable() string {
	return "JANITOR_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// settings lists the keys of c in the order of the struct.
func settings(c *Config) []setting { return leaves(reflect.ValueOf(c).Elem(), "") }

func leaves(v reflect.Value, prefix string) []setting {
	var all []setting
	for f, value := range fields(v) {
		switch target := value.Addr().Interface().(type) {
		case *string, *bool, *int, *time.Duration, *Schedule, *[]string, *[]Class:
			all = append(all, setting{prefix + f.name, target, f.restart})
		default:
			all = append(all, leaves(value, prefix+f.name+".")...)
		}
	}
	return all
}

// field is a key inside one section, as its tags say.
type field struct {
	name    string
	restart bool
}

// fields yields the keys of a section, which is a struct.
func fields(v reflect.Value) func(yield func(field, reflect.Value) bool) {
	return func(yield func(field, reflect.Value) bool) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := f.Tag.Get("yaml")
			if name == "" || name == "-" {
				continue
			}
			if !yield(field{name, f.Tag.Get("restart") == "yes"}, v.Field(i)) {
				return
			}
		}
	}
}

// suggest proposes the name nearest to one that is unknown, or lists all when
// none is near.
func suggest(unknown string, known []string) string {
	best, least := "", len(unknown)/3+2 // one slip in a short name, three in a long one
	for _, k := range known {
		if d := distance(strings.ToLower(unknown), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return "known here: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// distance is Levenshtein's: how many letters to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
