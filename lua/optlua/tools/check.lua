--- check: `optlua check FILE...`: looks for known traps in the source of scripts (tools/traps.lua), and tests the classes of
--- optimizers that a file returns or registers (optim/check).
local classes = require "optlua.optim.classes"
local files = require "optlua.files"
local Optimizer = require "optlua.optim.optimizer"
local options = require "optlua.options"
local test = require "optlua.optim.check"
local testing = require "optlua.testing"
local transforms = require "optlua.optim.transforms"
local traps = require "optlua.tools.traps"

local check = {}

local USAGE = [[
usage: optlua check FILE...
looks for known traps in the source of scripts, and tests the optimizers that they return or register.
status: 0 where nothing is found, 1 where something is, 2 where a file cannot be read]]

-- The source of a file; its first line may name the interpreter.
local function read(path)
  local source, problem = files.read(path)
  if not source then
    io.stderr:write("optlua check: ", problem, "\n")
    os.exit(2, true)
  end
  return (source:gsub("^#[^\n]*", ""))
end

-- Running a script ---------------------------------------------------------------------------------------------

local training = {} -- raised when a script that is only to make classes begins to train

-- What a script returns; one that trains is stopped at its first step, and one that ends the process at the end.
local function load_script(path)
  local step, exit = Optimizer.step, os.exit
  Optimizer.step = function() error(training, 0) end
  os.exit = function() error(path .. ": os.exit is called; what comes after it was not looked at", 0) end -- luacheck: ignore
  local ok, result = pcall(testing.load, path)
  Optimizer.step, os.exit = step, exit -- luacheck: ignore
  if ok then return true, result end
  return result == training, result ~= training and result or nil
end

-- Adds a class, or all in a table, in the order of their keys.
local function add(found, value)
  if classes.is_class(value) then
    if not found[value] then found[#found + 1], found[value] = value, true end
  elseif type(value) == "table" and not getmetatable(value) then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b)
      if type(a) == type(b) and type(a) ~= "boolean" then return a < b end
      return tostring(a) < tostring(b)
    end)
    for _, key in ipairs(keys) do
      if classes.is_class(value[key]) then add(found, value[key]) end
    end
  end
end

local function registered()
  local list = {}
  for _, name in ipairs(classes.added "*") do list[name] = classes.resolve(name) end
  return list
end

-- The name of a transform that a script registers, or else returns, which makes the script a module.
local function transform_of(path, result, before)
  for _, name in ipairs(transforms.added()) do
    if not before[name] then return name end
  end
  return type(result) == "function" and path:gsub("^%./", ""):gsub("%.lua$", ""):gsub("/", ".") or nil
end

-- The classes that a script returns or registers; nil and a message where it fails. And where it is about a transform, its name.
local function classes_of(path)
  local before, transforms_before = registered(), {}
  for _, name in ipairs(transforms.added()) do transforms_before[name] = true end
  local ok, result = load_script(path)
  if not ok then return nil, tostring(result) end
  local found, after = {}, registered()
  add(found, result)
  for _, name in ipairs(options.names(after)) do
    if after[name] ~= before[name] then add(found, after[name]) end
  end
  return found, transform_of(path, result, transforms_before)
end

-- The command ----------------------------------------------------------------------------------------------------

-- Prints the traps in a source; whether there are none.
local function check_source(path, source)
  local found = traps.source(source)
  for _, one in ipairs(found) do print(("%s:%d: %s"):format(path, one.line, one.message)) end
  return #found == 0
end

local function say_none(path, transform)
  print(path .. (transform and (": a transform, which is tested around a class: optim.check \"%s(SGD)\"; nothing was tested"):format(transform)
    or ": no optimizer is returned or registered; none was tested"))
end

-- Prints how the classes of a script do; whether nothing fails.
local function check_classes(path)
  local found, name = classes_of(path)
  if not found then
    print(name)
    return false
  end
  if #found == 0 then say_none(path, name) end
  local good = true
  for _, class in ipairs(found) do
    local tested, report = pcall(test, class)
    print(report)
    good = good and tested and report.ok
  end
  return good
end

local function check_file(path)
  local source = read(path)
  local chunk, wrong = load(source, "@" .. path, "t")
  if not chunk then
    print(wrong)
    return false
  end
  local good, hands_out, makes = check_source(path, source), traps.hands_out_classes(source)
  if hands_out then return check_classes(path) and good end
  if makes then say_none(path) end
  return good
end

--- The command: prints what it finds, and ends with status 1 if there is something.
---@param ... string files
function check.run(...)
  if ... == "--help" then return print(USAGE) end
  local good = true
  for _, path in ipairs { ... } do good = check_file(path) and good end
  if good then print "no traps found" end
  os.exit(good and 0 or 1, true)
end

return check
