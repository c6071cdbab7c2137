--- plot: `optlua plot RUN... [--of NAME] [--out FILE.svg]`: curves of the logs of runs.
local chart = require "optlua.chart"
local files = require "optlua.files"
local options = require "optlua.options"
local decode = require("optlua.core").hidden.json_decode

local plot = {}

local function fail(message)
  io.stderr:write("optlua plot: ", message, "\n")
  os.exit(2, true)
end

-- Calls visit(record, line number) for each record of a log. The last line of a run that goes on may be half written.
local function each_record(path, visit)
  local text, problem = files.read(path)
  if not text then fail(problem) end
  local number = 0
  for line, ended in text:gmatch "([^\n]+)(\n?)" do
    number = number + 1
    local record, wrong = decode(line)
    if type(record) == "table" then
      visit(record)
    elseif ended ~= "" then
      fail(("%s:%d: %s"):format(path, number, wrong or "a record expected"))
    end
  end
  if number == 0 then fail(path .. ": there is no record in it") end
end

-- The line through values by step.
local function line_through(values)
  local line = { x = {} }
  for step in pairs(values) do line.x[#line.x + 1] = step end
  table.sort(line.x)
  for k, step in ipairs(line.x) do line[k] = values[step] end
  return line
end

-- The values of one name over the steps of a run; a step that is there again (a run that was resumed) counts as it was last.
-- What validations and other events have noted is named `validation.loss`.
local function read(run, name)
  local path = run:match "%.jsonl$" and run or run .. "/log.jsonl"
  local values, names = {}, {}
  each_record(path, function(record)
    if type(record.step) ~= "number" then return end
    for key, value in pairs(record) do -- what was not finite is null, a userdata
      local full = record.event and tostring(record.event) .. "." .. key or key
      local is_number = type(value) == "number"
      if (is_number or type(value) == "userdata") and key ~= "step" then names[full] = true end
      if is_number and full == name then values[record.step] = value end
    end
  end)
  if not names[name] then fail(("%s: %s"):format(path, options.unknown("name", name, options.names(names)))) end
  local line = line_through(values)
  if #line == 0 then fail(('%s: no step has a finite "%s"'):format(path, name)) end
  line.name = ("%s of %s"):format(name, run)
  return line
end

-- Runs, the name, the file.
local function read_words(words)
  local runs, name, out, i = {}, "loss", nil, 1
  while words[i] do
    if words[i] == "--of" or words[i] == "--out" then
      if not words[i + 1] then fail(words[i] .. ": a value is missing") end
      if words[i] == "--of" then name = words[i + 1] else out = words[i + 1] end
      i = i + 1
    elseif words[i]:find "^%-%-" then
      fail(("unknown option %s; legal: --of NAME, --out FILE.svg"):format(words[i]))
    else
      runs[#runs + 1] = words[i]
    end
    i = i + 1
  end
  if #runs == 0 then fail "which runs? give folders of runs" end
  return runs, name, out
end

--- The command.
---@param ... string
function plot.run(...)
  local runs, name, out = read_words { ... }
  local lines = {}
  for k, run in ipairs(runs) do lines[k] = read(run, name) end
  local ok, text = pcall(chart.draw, lines, { width = 72, height = 16, path = out })
  if not ok then fail((tostring(text):gsub("^[^:]+:%d+: ", ""))) end
  print(text)
end

return plot
