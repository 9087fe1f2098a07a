// Reads a history from standard input, an operation a line, and asks porcupine whether each key's
// part is linearizable. Prints "ok", or the key that has no order.
//
// A line has words separated by tabs: thread, key, call, first and second argument, answer, its
// value, stamp of the beginning, stamp of the end. Strings are hexadecimal behind "=", so that
// nothing is "-". An operation without an answer may take effect at any time later, also behind
// everything else, which is as if it never did.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const nothing = "-"

type call struct{ kind, first, second string }

type answer struct{ kind, value string }

// step is what a call does to a key, and whether its answer is right.
func step(state, in, out any) (bool, any) {
	was, asked, told := state.(string), in.(call), out.(answer)
	next, did, sum := was, true, ""
	switch asked.kind {
	case "get":
	case "put", "replace":
		next = asked.first
	case "delete":
		next, did = nothing, was != nothing
	case "swap":
		did = was == asked.first
		if did {
			next = asked.second
		}
	case "add":
		by, _ := strconv.ParseInt(asked.first, 10, 64)
		number := int64(0)
		if was != nothing {
			text, _ := unhex(was)
			number, _ = strconv.ParseInt(text, 10, 64)
		}
		sum = strconv.FormatInt(number+by, 10)
		next = "=" + fmt.Sprintf("%x", sum)
	default:
		panic("an unknown call: " + asked.kind)
	}
	right := true
	switch told.kind {
	case "was":
		right = told.value == was
	case "did":
		right = told.value == strconv.FormatBool(did)
	case "sum":
		right = told.value == sum
	}
	return right, next
}

func unhex(text string) (string, error) {
	var out strings.Builder
	for at := 1; at+2 <= len(text); at += 2 {
		b, err := strconv.ParseUint(text[at:at+2], 16, 8)
		if err != nil {
			return "", err
		}
		out.WriteByte(byte(b))
	}
	return out.String(), nil
}

func main() {
	keys := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		if len(words) != 9 {
			fmt.Println("a line has not 9 words:", lines.Text())
			os.Exit(2)
		}
		thread, _ := strconv.Atoi(words[0])
		begin, _ := strconv.ParseInt(words[7], 10, 64)
		end, _ := strconv.ParseInt(words[8], 10, 64)
		if words[5] == "unknown" {
			end = math.MaxInt64
		}
		keys[words[1]] = append(keys[words[1]], porcupine.Operation{
			ClientId: thread,
			Input:    call{words[2], words[3], words[4]},
			Call:     begin,
			Output:   answer{words[5], words[6]},
			Return:   end,
		})
	}
	model := porcupine.Model{Init: func() any { return nothing }, Step: step}
	for key, operations := range keys {
		// A thread that got no answer goes on: what it does next overlaps, so it is another client.
		result := porcupine.CheckOperationsTimeout(model, operations, time.Minute)
		if result == porcupine.Illegal {
			fmt.Println("no order for", key)
			os.Exit(1)
		}
		if result == porcupine.Unknown {
			fmt.Println("no answer within a minute for", key)
			os.Exit(2)
		}
	}
	fmt.Println("ok", len(keys))
}
