-- Random codes from a file, with the headers a browser sends. Arguments: codes file, host, headers as JSON.
local requests, count = {}, 0
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(args)
  local head = " HTTP/1.1\r\nHost: " .. args[2] .. "\r\n"
  for name, value in string.gmatch(args[3], '"([^"]+)": "([^"]+)"') do
    head = head .. name .. ": " .. value .. "\r\n"
  end
  for code in io.lines(args[1]) do
    count = count + 1
    requests[count] = "GET /" .. code .. head .. "\r\n"
  end
  math.randomseed(number)
end

function request()
  return requests[math.random(count)]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('RESULT {"requests":%d,"seconds":%f,"p50":%d,"p99":%d,"bad":%d,"errors":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
