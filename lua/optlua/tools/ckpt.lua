--- ckpt: `optlua ckpt show|verify|diff|convert PATH…`: looks at checkpoints, and takes the weights out of them.
local checkpoint = require "optlua.checkpoint"
local folder = require "optlua.checkpoint.folder"
local keeper = require "optlua.spec.keeper"
local optlua = require "optlua"
local options = require "optlua.options"
local overview = require "optlua.optim.overview"
local text = require "optlua.config.text"
local shape_text = require("optlua.shape").text

local ckpt = {}

local function fail(message, status)
  io.stderr:write("optlua ckpt: ", message, "\n")
  os.exit(status or 2, true)
end

-- A checkpoint, or the last of a run.
local function find(path)
  local found, problem = keeper.find(path)
  if not found then fail(problem, 1) end
  return found
end

local function read(path)
  local saved, problem, format = checkpoint.read(path)
  if not saved then fail(problem, 1) end
  return saved, format
end

-- Everything in a checkpoint under one name each: tensors and plain values.
local function entries(path)
  local saved, list = read(path), {}
  local function add(prefix, value)
    if type(value) == "table" and next(value) and value[1] == nil then
      for key, item in pairs(value) do add(prefix .. "." .. key, item) end
    else
      list[prefix] = value
    end
  end
  for _, part in ipairs { "optimizer", "scheduler", "loader", "rng", "extra", "frozen", "value" } do
    if saved[part] then add(part, saved[part]) end
  end
  for file, prefix in pairs { ["weights.safetensors"] = "model.", ["optimizer.safetensors"] = "optimizer.",
    ["gradients.safetensors"] = "gradient." } do
    if saved.files[file] then
      for name, tensor in pairs((optlua.load(path .. "/" .. file))) do list[prefix .. name] = tensor end
    end
  end
  return list
end

local commands = {}

--- What is in it.
function commands.show(path)
  path = find(path)
  local saved, format = read(path)
  print(("%s: format %d, %s"):format(path, format, saved.date))
  local versions = {}
  for _, name in ipairs(options.names(saved.versions)) do versions[#versions + 1] = ("%s %s"):format(name, saved.versions[name]) end
  print("  written by " .. table.concat(versions, ", "))
  for _, name in ipairs(options.names(saved.files)) do print(("  %s  %s"):format(name, overview.size_text(saved.files[name].bytes))) end
  local list = entries(path)
  for _, name in ipairs(options.names(list)) do
    local value = list[name]
    if optlua.is_tensor(value) then
      print(("  %s  %s %s"):format(name, value.dtype, shape_text(value)))
    elseif name ~= "extra.config" and not name:find "fingerprint$" then
      print(("  %s = %s"):format(name, text.write(value)))
    end
  end
end

-- What a path names: a checkpoint, or all of a run.
local function all_of(path)
  for _, place in ipairs { path .. "/checkpoints", path } do
    local list = checkpoint.list((place:gsub("/+$", "")))
    if #list > 0 then return list end
  end
  if not folder.exists(path) then fail(path .. ": there is no checkpoint", 1) end
  return { path }
end

--- Whether its files are as they were written; of a run those of all checkpoints.
function commands.verify(path)
  local damaged = false
  for _, found in ipairs(all_of(path)) do
    local problems = checkpoint.verify(found)
    for _, problem in ipairs(problems) do print(problem) end
    if #problems == 0 then print(found .. ": all files are as they were written") end
    damaged = damaged or #problems > 0
  end
  if damaged then os.exit(1, true) end
end

-- How two entries differ, or nil.
local function difference(a, b)
  if a == nil then return "only in the second" elseif b == nil then return "only in the first" end
  if optlua.is_tensor(a) and optlua.is_tensor(b) then
    if table.concat(a.shape, ",") ~= table.concat(b.shape, ",") then
      return ("%s and %s"):format(shape_text(a), shape_text(b))
    end
    if a.dtype ~= b.dtype then return a.dtype .. " and " .. b.dtype end
    local gap = a:numel() > 0 and (a:to "float64" - b:to "float64"):abs():max():item() or 0
    return gap ~= 0 and ("differ by up to %.6g"):format(gap) or nil
  end
  local left, right = text.write(a), text.write(b)
  return left ~= right and ("%s and %s"):format(left, right) or nil
end

--- What differs between two.
function commands.diff(first, second)
  if not second then fail "diff needs two checkpoints" end
  local a, b, names, differs = entries(find(first)), entries(find(second)), {}, false
  for name in pairs(a) do names[name] = true end
  for name in pairs(b) do names[name] = true end
  for _, name in ipairs(options.names(names)) do
    local found = difference(a[name], b[name])
    if found then
      differs = true
      print(("%s: %s"):format(name, found))
    end
  end
  if differs then os.exit(1, true) end
  print "they are the same"
end

--- Takes the weights out, as one safetensors file.
function commands.convert(path, out)
  if not out or not out:find "%.safetensors$" then fail "convert needs a checkpoint and a file that ends with .safetensors" end
  local tensors, metadata = optlua.load(find(path) .. "/weights.safetensors")
  optlua.save(out, tensors, metadata)
  print(out)
end

--- The command.
---@param ... string
function ckpt.run(...)
  local words = { ... }
  local command = commands[words[1]]
  if not command then fail(options.unknown("command", tostring(words[1]), options.names(commands))) end
  if not words[2] then fail(words[1] .. ": the path of a checkpoint or of a run is missing") end
  command(table.unpack(words, 2))
end

return ckpt
