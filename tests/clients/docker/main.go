// Sends lines by Docker's own splunk log driver, as dockerd does.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/docker/docker/daemon/logger"
	"github.com/docker/docker/daemon/logger/splunk"
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	info := logger.Info{
		Config:        map[string]string{},
		ContainerID:   "0123456789abcdef0123456789abcdef",
		ContainerName: "/shop",
	}
	for _, option := range os.Args[2:] {
		for at := range option {
			if option[at] == '=' {
				info.Config[option[:at]] = option[at+1:]
				break
			}
		}
	}
	driver, err := splunk.New(info)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for number := range count {
		message := logger.NewMessage()
		message.Line = append(message.Line, fmt.Sprintf("sold piece=%d to Zoë", number)...)
		message.Source = "stdout"
		message.Timestamp = time.Unix(1795225000+int64(number), 500_000_000)
		if err := driver.Log(message); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := driver.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
