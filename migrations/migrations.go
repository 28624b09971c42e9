// Package migrations embeds the numbered SQL files that make and change the
// database. A released file is never edited: a change is a new file.
package migrations

import "embed"

// FS holds the files, NNNN_name.sql, in goose's format.
//
//go:embed *.sql
var FS embed.FS
