package config

import "reflect"

// Reload compares the configuration in force with a newly loaded one and
// returns the keys that changed: those a running service takes over at once,
// and those (socket, database, docker_host) that stay as they are until it is
// restarted. Both are in the order of Config.
func Reload(old, now *Config) (applied, needRestart []string) {
	before := settings(old)
	for i, s := range settings(now) {
		if reflect.DeepEqual(plain(before[i].target), plain(s.target)) {
			continue
		}
		if s.restart {
			needRestart = append(needRestart, s.key)
		} else {
			applied = append(applied, s.key)
		}
	}
	return applied, needRestart
}

// plain is what a setting says: a schedule is compared as written.
func plain(target any) any {
	if s, ok := target.(*Schedule); ok {
		return s.spec
	}
	return target
}
