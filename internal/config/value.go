package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// longest bounds every duration, so that adding one to an instant cannot
// overflow. It is far above what anybody means.
const longest = 10 * 365 * 24 * time.Hour

// parseDuration reads a duration as Go writes them ("1h30m") or in whole
// seconds ("5400"). Negative ones, and those above ten years, are refused.
func parseDuration(text string) (time.Duration, error) {
	const rule = "write a number and a unit, such as 90m or 2h15m, or whole seconds"
	d, err := time.ParseDuration(text)
	if err != nil {
		var seconds int64
		switch seconds, err = strconv.ParseInt(text, 10, 64); {
		case err == nil && seconds > int64(longest/time.Second):
			d = longest + 1
		case err == nil && seconds < 0:
			d = -1
		case err == nil:
			d = time.Duration(seconds) * time.Second
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("%q is out of range; at most ten years (87600h)", text)
		default:
			return 0, fmt.Errorf("%q is not a duration; %s", text, cmp.Or(largeUnit(text), rule))
		}
	}
	switch {
	case d < 0:
		return 0, fmt.Errorf("%q is negative; %s", text, rule)
	case d > longest:
		return 0, fmt.Errorf("%q is longer than ten years (87600h)", text)
	}
	return d, nil
}

// largeUnit is advice for 1d and 2w, which people write and Go does not know.
func largeUnit(text string) string {
	for unit, hours := range map[string]int64{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			if v, err := strconv.ParseInt(n, 10, 32); err == nil && v >= 0 {
				return fmt.Sprintf("days and weeks are not units here, because they are not always 24 hours long: write %dh", v*hours)
			}
		}
	}
	return ""
}

// formatDuration writes 2h15m where time.Duration.String writes 2h15m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// setText gives a setting the value written as text in a variable or a flag.
// Lists are comma separated; an empty text is an empty list.
func setText(target any, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("holds a control character or is not UTF-8; write it as plain text")
	}
	switch p := target.(type) {
	case *string:
		*p = text
	case *bool:
		switch text {
		case "true":
			*p = true
		case "false":
			*p = false
		default:
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	case *time.Duration:
		d, err := parseDuration(text)
		if err != nil {
			return err
		}
		*p = d
	case *Schedule:
		s, err := parseSchedule(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q %w", text, err)
		}
		*p = s
	case *[]string:
		list := []string{}
		for _, item := range strings.Split(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		*p = list
	default:
		return errors.New("can only be set in the file")
	}
	return nil
}
