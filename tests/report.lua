-- report: busted's output as tests/run.lua reads it.
--
-- Before each test its name goes out on a line that begins with byte 1, so that a crash can be laid at
-- its door; failures are printed whole; the last line is "N passed, N failed, N skipped". Whatever
-- fails outside a test (a file that does not load, a setup) counts as a failure of its own.
local busted = require "busted"

local counts = { success = 0, failure = 0, error = 0, pending = 0 }

local function full_name(element)
  local names = {}
  while element and element.descriptor ~= "file" and element.descriptor ~= "suite" do
    table.insert(names, 1, element.name or element.descriptor)
    element = busted.parent(element)
  end
  return table.concat(names, " ")
end

local function say(...)
  io.stdout:write(...)
  io.stdout:flush()
end

local function explain(element, _, message, trace)
  local where = element.descriptor == "file" and element.name or full_name(element)
  local text = type(message) == "string" and message or require("pl.pretty").write(message)
  local traceback = trace and trace.traceback or ""
  say("\nFAILED: ", where, "\n", text:gsub("%s*$", "\n"), traceback:gsub("^%s*", ""), "\n")
  if element.descriptor ~= "it" then counts.error = counts.error + 1 end
  return nil, true
end

local function start(element)
  say("\1", full_name(element), "\n")
  return nil, true
end

local function finish(_, _, status)
  counts[status] = counts[status] + 1
  return nil, true
end

local function sum_up()
  say(("\n%d passed, %d failed, %d skipped\n"):format(counts.success, counts.failure + counts.error, counts.pending))
  return nil, true
end

return function()
  return {
    subscribe = function()
      busted.subscribe({ "test", "start" }, start)
      busted.subscribe({ "test", "end" }, finish)
      busted.subscribe({ "failure" }, explain)
      busted.subscribe({ "error" }, explain)
      busted.subscribe({ "exit" }, sum_up)
    end,
  }
end
