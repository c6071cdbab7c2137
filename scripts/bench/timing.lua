-- timing: medians of interleaved runs, and their ratios.
local clock = require("optlua.core").clock

local timing = { clock = clock }

local function median(list)
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[n // 2 + 1] or (list[n // 2] + list[n // 2 + 1]) / 2
end

--- Seconds that fn(calls) takes, or those that it returns.
local function seconds_of(fn, calls)
  local start = clock()
  local own = fn(calls)
  return own or clock() - start
end

--- How many calls last about `seconds`.
local function calls_for(fn, seconds)
  fn(1)
  local calls = 1
  while true do
    local elapsed = seconds_of(fn, calls)
    if elapsed >= seconds / 4 then return math.max(1, math.floor(calls * seconds / elapsed)) end
    calls = calls * 4
  end
end

--- Times contenders in turn, round after round: { { name, fn }, … }, where fn(n) does the work n times. A
--- contender that works elsewhere returns how many seconds it took.
---@param contenders table[]
---@param opts? { rounds?: integer, seconds?: number } default 15 rounds of 0.03 s each
---@return number[] seconds of one call, the median, for each contender
---@return number[] over the first contender, the median of the ratios within each round: a machine that is slower
--- for a while is so for both
function timing.interleaved(contenders, opts)
  local rounds, seconds = opts and opts.rounds or 15, opts and opts.seconds or 0.03
  local calls, times = {}, {}
  for k, contender in ipairs(contenders) do
    calls[k], times[k] = calls_for(contender[2], seconds), {}
  end
  for round = 1, rounds do
    for k, contender in ipairs(contenders) do
      collectgarbage()
      times[k][round] = seconds_of(contender[2], calls[k]) / calls[k]
    end
  end
  local medians, ratios = {}, {}
  for k in ipairs(contenders) do
    local over = {}
    for round = 1, rounds do over[round] = times[k][round] / times[1][round] end
    ratios[k] = median(over)
  end
  for k in ipairs(contenders) do medians[k] = median(times[k]) end
  return medians, ratios
end

--- A time in a unit that suits it.
function timing.text(seconds)
  for _, unit in ipairs { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "µs" } } do
    if seconds >= unit[1] then return ("%.3g %s"):format(seconds / unit[1], unit[2]) end
  end
  return ("%.3g ns"):format(seconds / 1e-9)
end

--- Prints a line of contenders: the first one is the floor; others with their ratio to it.
function timing.report(title, contenders, opts)
  local times, ratios = timing.interleaved(contenders, opts)
  local words = { ("%-34s %s %s"):format(title, contenders[1][1], timing.text(times[1])) }
  for k = 2, #contenders do
    words[#words + 1] = ("%s %s (%.2f×)"):format(contenders[k][1], timing.text(times[k]), ratios[k])
  end
  print(table.concat(words, "   "))
  io.stdout:flush()
  return times
end

-- What the words of the lines mean, and those of their ends.
local words = {
  { "bytes", "a copy loop that reads and writes what must be read and written, in place: no update is faster" },
  { "fused C", "the same update as one loop written by hand in C" },
  { "products", "the matrix products of the work alone, by BLAS" },
  { "sgemm", "the matrix products of Muon's update alone" },
  { "step", "what optlua takes: an update of the optimizer, or a whole training step" },
  { "optlua", "what optlua takes" },
  { "torch", "what PyTorch takes for the same; behind it, as ratio, optlua's time over that" },
  { "fused, foreach, for-loop, compiled, eager", "PyTorch's ways to do the same" },
}

--- Prints how lines are to be read, and what these words in them mean.
---@param ... string
function timing.legend(...)
  print "each line: what is done, then how it is done and how long that takes, the median of rounds in which all take turns; with ×"
  print "is the ratio: how many times as long as the first, which is the floor, or what the others are compared with"
  for _, name in ipairs { ... } do
    for _, word in ipairs(words) do
      if word[1] == name then print(("  %-9s %s"):format(name, word[2])) end
    end
  end
  print ""
end

return timing
