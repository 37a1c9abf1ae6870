-- Each request makes a link under a generated code.
local thread = 0
function setup(t)
  t:set("number", thread)
  thread = thread + 1
end
function init(args)
  key = args[1]
  made = 0
  math.randomseed(os.time() + number * 7919)
  salt = math.random(1, 1e9)
end
function request()
  made = made + 1
  local body = string.format('{"target":"https://example.com/%d/%d/%d"}', salt, number, made)
  return wrk.format("POST", "/api/v1/links", { ["Authorization"] = "Bearer " .. key, ["Content-Type"] = "application/json", ["Host"] = "localhost" }, body)
end
function response(status)
  if status ~= 201 then bad = (bad or 0) + 1 end
end
function done(summary, latency)
  io.write(string.format("%.0f links/s, p50 %.1f ms, p99 %.1f ms, %d not 2xx\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1000, latency:percentile(99) / 1000, summary.errors.status))
end
