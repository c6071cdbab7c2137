--- plot: `optlua plot RUN... [--of NAME] [--out FILE.svg]`: curves of the logs of runs.
local chart = require "optlua.chart"
local options = require "optlua.options"
local decode = require("optlua.core").hidden.json_decode

local plot = {}

local function fail(message)
  io.stderr:write("optlua plot: ", message, "\n")
  os.exit(2, true)
end

-- The values of one name over the steps of a run; several records of a step are averaged.
local function read(run, name)
  local path = run:match "%.jsonl$" and run or run .. "/log.jsonl"
  local file, problem = io.open(path)
  if not file then fail(problem) end
  local line, names, number = { name = ("%s of %s"):format(name, run) }, {}, 0
  for text in file:lines() do
    number = number + 1
    local record, wrong = decode(text)
    if not record then fail(("%s:%d: %s"):format(path, number, wrong)) end
    for key, value in pairs(record) do names[key] = names[key] or type(value) == "number" end
    local value = record[name]
    if type(value) == "number" and record.step and (not record.event or name:find "^validation%.") then line[#line + 1] = value end
  end
  file:close()
  if #line == 0 then fail(("%s: %s"):format(path, options.unknown("name", name, options.names(names)))) end
  return line
end

--- The command.
---@param ... string
function plot.run(...)
  local words, runs, name, out, i = { ... }, {}, "loss", nil, 1
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
  local lines = {}
  for k, run in ipairs(runs) do lines[k] = read(run, name) end
  print(chart.draw(lines, { width = 72, height = 16, path = out }))
end

return plot
