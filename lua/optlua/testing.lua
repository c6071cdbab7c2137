--- testing: helps for tests of users' scripts, with busted: `optlua test` runs them.
local optlua = require "optlua"
local blame = require "optlua.blame"
local files = require "optlua.files"
local options = require "optlua.options"

local registry = require "optlua.registry"
local null = require("optlua.config.text").null
local shape = require "optlua.shape"

local testing = {}

local function text(value)
  local line = tostring(value)
  return #line > 200 and line:sub(1, 200) .. " …" or line
end

local function check_tensor(what, value)
  if not optlua.is_tensor(value) then blame(("testing.%s: a tensor expected, got a %s"):format(what, type(value))) end
  return value
end

local function check_alike(what, a, b)
  check_tensor(what, a)
  check_tensor(what, b)
  if not shape.same(a, b) or a.dtype ~= b.dtype then
    blame(("testing.%s: %s %s and %s %s"):format(what, a.dtype, shape.text(a), b.dtype, shape.text(b)))
  end
end

--- Raises unless two tensors of the same shape and type are close: |a - b| <= atol + rtol |b|.
---@param a optlua.Tensor
---@param b optlua.Tensor
---@param opts? { rtol?: number, atol?: number } default 1e-5, 1e-8
function testing.allclose(a, b, opts)
  opts = options.check("testing.allclose", opts, { rtol = { default = 1e-5, min = 0 }, atol = { default = 1e-8, min = 0 } })
  check_alike("allclose", a, b)
  if a:allclose(b, opts) then return end
  local gap = (a:detach():to "float64" - b:detach():to "float64"):abs():max():item()
  blame(("testing.allclose: they differ by up to %.6g:\n%s\n%s"):format(gap, text(a), text(b)))
end

--- Raises unless two tensors have the same shape, type and bits (NaN is NaN).
---@param a optlua.Tensor
---@param b optlua.Tensor
function testing.same_bits(a, b)
  check_alike("same_bits", a, b)
  local x, y = a:detach():contiguous():reshape(-1):totable(), b:detach():contiguous():reshape(-1):totable()
  for k, value in ipairs(x) do
    local same = value == y[k] and 1 / value == 1 / y[k] or value ~= value and y[k] ~= y[k]
    if not same then blame(("testing.same_bits: element %d: %.17g and %.17g"):format(k, value, y[k])) end
  end
end

--- Raises unless an optimizer has exactly these groups with these parameters, in order.
---
---     local optlua = require "optlua"
---     local optimizer = optlua.optim.SGD(optlua.nn.Linear(2, 2), { lr = 0.1 })
---     optlua.testing.groups_are(optimizer, { default = { "weight", "bias" } })
---@param optimizer optlua.optim.Optimizer
---@param wanted table<string, string[]>
function testing.groups_are(optimizer, wanted)
  if type(optimizer) ~= "table" or type(optimizer._groups) ~= "table" then
    local hint = type(optimizer) == "table" and type(optimizer.extend) == "function"
      and "; that of a spec is in its result: spec:run({ steps = 0 }).state.optimizers" or ""
    blame("testing.groups_are: an optimizer expected" .. hint)
  end
  if type(wanted) ~= "table" then blame("testing.groups_are: groups with names of parameters expected, got a " .. type(wanted)) end
  for name, names in pairs(wanted) do
    if type(names) ~= "table" then blame(("testing.groups_are: %s: a list of names expected, got a %s"):format(name, type(names))) end
  end
  local problems, seen = {}, {}
  for _, group in pairs(optimizer.groups) do
    local names = wanted[group.name]
    seen[group.name] = true
    local has, should = table.concat(group.names, " "), names and table.concat(names, " ")
    if not names then
      problems[#problems + 1] = ("group %s is there, with %s"):format(group.name, has)
    elseif has ~= should then
      problems[#problems + 1] = ("group %s has %s, not %s"):format(group.name, has, should)
    end
  end
  for _, name in ipairs(options.names(wanted)) do
    if not seen[name] then problems[#problems + 1] = ("there is no group %s"):format(name) end
  end
  if #problems > 0 then blame("testing.groups_are: " .. table.concat(problems, "; ")) end
end

--- Trains a spec for some updates and raises unless the loss has fallen: the mean of the last quarter is below that of the
--- first. Nothing is written.
---@param spec optlua.Spec
---@param opts? table steps (default 20; epochs do not limit them unless given here) and values of the config
---@return table result as of spec:run
function testing.loss_falls(spec, opts)
  if type(spec) ~= "table" or type(spec.extend) ~= "function" then blame("testing.loss_falls: a spec expected, got a " .. type(spec)) end
  local overrides = {}
  for key, value in pairs(opts or {}) do overrides[key] = value end
  overrides.steps, overrides.epochs = overrides.steps or 20, overrides.epochs or null
  local losses = {}
  local watched = spec:extend { on_step = function(state) losses[#losses + 1] = state.loss end }
  local result = watched:run(overrides)
  local quarter = math.max(1, #losses // 4)
  if #losses < 2 then blame(("testing.loss_falls: there were %d updates"):format(#losses)) end
  local first, last = 0, 0
  for k = 1, quarter do
    first, last = first + losses[k] / quarter, last + losses[#losses - quarter + k] / quarter
  end
  if not (last < first) then -- luacheck: ignore (NaN)
    blame(("testing.loss_falls: it went from %.6g to %.6g in %d updates"):format(first, last, #losses))
  end
  return result
end

-- Calls a chunk as the script of a command line: `arg` holds its words; what it registers may be there already.
local function call_script(chunk, path, ...)
  local before = _G.arg
  _G.arg = { [0] = path, ... }
  local results = table.pack(registry.renew(chunk, ...))
  _G.arg = before
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- The folder of the function outside this file that asks.
local function home_of_caller()
  local level = 2
  local own, info = debug.getinfo(1, "S").source, debug.getinfo(level, "S")
  while info and (info.what == "C" or info.source == own) do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  return info and info.source:match "^@(.*/)" or ""
end

-- A path as it is from the current folder, or else from that of the script which asks.
local function locate(path)
  local beside = home_of_caller() .. path
  return not path:find "^/" and not files.exists(path) and files.exists(beside) and beside or path
end

--- Loads a script without training what it returns.
---@param path string from the current folder, or else from that of the test itself
---@param ... string words of its command line, for optlua.config
---@return any ... what it returns: a spec, most likely
function testing.load(path, ...)
  if type(path) ~= "string" then blame("testing.load: a path expected, got a " .. type(path)) end
  path = locate(path)
  local home = path:match "^(.*)/" or "."
  if not package.path:find(home .. "/?.lua;", 1, true) then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(home, home, package.path)
  end
  local chunk, problem = loadfile(path, "t")
  if not chunk then blame("testing.load: " .. problem) end
  return call_script(chunk, path, ...)
end

--- Calls a function and gives back what it prints, with print and io.write, instead of printing it.
---
---     local optlua = require "optlua"
---     local text = optlua.testing.output(function() io.write("loss ", 0.5) end)
---     print(text) --> loss 0.5
---@param fn function such as testing.load, to run a plain script
---@param ... any its arguments
---@return string
function testing.output(fn, ...)
  local pieces, print_before, write_before = {}, _G.print, io.write
  _G.print = function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    pieces[#pieces + 1] = table.concat(words, "\t") .. "\n"
  end
  io.write = function(...) -- luacheck: ignore
    for _, piece in ipairs { ... } do pieces[#pieces + 1] = tostring(piece) end
    return io.output()
  end
  local ok, problem = pcall(fn, ...)
  _G.print, io.write = print_before, write_before -- luacheck: ignore
  if not ok then error(problem, 0) end
  return table.concat(pieces)
end

--- Small data that can be learnt: n points (x, y) with x normal of `features` numbers and y the class, 0 … classes - 1, of the
--- largest of as many fixed linear functions.
---@param opts? { n?: integer, features?: integer, classes?: integer, seed?: integer } default 64, 4, 3, 0
---@return data.Dataset
function testing.points(opts)
  opts = options.check("testing.points", opts, { n = { default = 64, integer = true, min = 1 },
    features = { default = 4, integer = true, min = 1 }, classes = { default = 3, integer = true, min = 2 },
    seed = { default = 0, integer = true } })
  local before = optlua.get_rng_state()
  optlua.manual_seed(opts.seed)
  local x, w = optlua.randn { opts.n, opts.features }, optlua.randn { opts.features, opts.classes }
  optlua.set_rng_state(before)
  return optlua.data.tensors(x, x:matmul(w):argmax(2))
end

return options.strict("testing", testing)
