package api

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Whatever comes is either a refusal of ours, or fields that are known and mean
// the same when they are written as a form.
func FuzzParseFields(f *testing.F) {
	for _, body := range []string{
		`{"name":"a","ttl":90,"labels":{"x":"y"},"wait":"1s"}`, `{"name":"a","name":"b"}`, `{"name":"\ud800"}`, `{`, `{"labels":{"a":{}}}`,
		`name=a&ttl=1h&labels=x=y`, `name=a;b`, `%`, "\x00", `{"name":"a"}{}`, `{"name":[1,{"a":"}"}]}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, contentType := range []string{"application/json", formType} {
			in, err := parseFields(contentType, []byte(body), registerFields)
			if err != nil {
				p, ok := errors.AsType[*inventory.Problem](err)
				if !ok || mappings[p.Code].code != "invalid" || p.Message == "" {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			for name := range in.values {
				if k, ok := registerFields[name]; !ok || k == labels {
					t.Fatalf("%q gives field %q", body, name)
				}
			}
			reg, wait, err := registrationOf(in)
			if err != nil {
				continue
			}
			if inventory.CheckName(reg.Name) != nil || reg.TTL < 0 || wait < 0 || wait > maxWait || len(reg.Labels) > maxLabels {
				t.Fatalf("%q gives %+v, %s", body, reg, wait)
			}
			for _, s := range []string{reg.Owner, reg.Job, reg.Build, reg.URL, reg.Kubeconfig, reg.Marker} {
				if unfit(s, maxPath) != "" {
					t.Fatalf("%q gives %+v", body, reg)
				}
			}
			again, err := parseFields(formType, []byte(asForm(in)), registerFields)
			if err != nil || fmt.Sprint(again.values, again.labels) != fmt.Sprint(in.values, in.labels) {
				t.Fatalf("%q gives %v, as a form %v, %v", body, in, again, err)
			}
		}
	})
}

func asForm(f fields) string {
	v := url.Values{}
	for name, value := range f.values {
		v.Set(name, value)
	}
	for key, value := range f.labels {
		v.Add("labels", key+"="+value)
	}
	return v.Encode()
}
