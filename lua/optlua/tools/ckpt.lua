--- ckpt: `optlua ckpt show|verify|diff|convert PATH…`: looks at checkpoints, and takes the weights out of them. A PATH is a
--- checkpoint, or a run or a folder, of which the last is taken.
local checkpoint = require "optlua.checkpoint"
local folder = require "optlua.checkpoint.folder"
local resume = require "optlua.spec.resume"
local optlua = require "optlua"
local options = require "optlua.options"
local policies = require "optlua.spec.policy"
local overview = require "optlua.optim.overview"
local safetensors = require "optlua.safetensors"
local record = require "optlua.checkpoint.record"
local text = require "optlua.config.text"
local shape = require "optlua.shape"

local describe, shape_text = shape.describe, shape.text

local ckpt = {}

local function fail(message, status)
  io.stderr:write("optlua ckpt: ", message, "\n")
  os.exit(status or 2, true)
end

-- A checkpoint, or the last of a run, which is whole.
local function find(path)
  local found, problem = resume.find(path)
  if not found then fail(problem, 1) end
  local problems = checkpoint.verify(found)
  if #problems > 0 then fail(table.concat(problems, "\noptlua ckpt: "), 1) end
  return found
end

local function read(path)
  local saved, problem, format = checkpoint.read(path)
  if not saved then fail(problem, 1) end
  return saved, format
end

-- The tensors of a file as its header says, each as { of = entry }.
local function headers(file)
  local reader <close> = safetensors.open(file)
  local list = {}
  for name, entry in pairs(reader.entry) do list[name] = { of = entry } end
  return list
end

-- Everything in a checkpoint under one name each: plain values, and tensors as read_file gives them.
local function entries(path, read_file)
  local saved, list = read(path), {}
  local function add(prefix, value)
    if record.referred(value) then return end -- its file has it
    if type(value) == "table" and next(value) and (value[1] == nil or type(value[1]) == "table") then
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
      for name, tensor in pairs((read_file(path .. "/" .. file))) do list[prefix .. name] = tensor end
    end
  end
  return list
end

local function show(path)
  local saved, format = read(path)
  print(("%s: format %d, %s"):format(path, format, saved.date))
  local versions = {}
  for _, name in ipairs(options.names(saved.versions)) do versions[#versions + 1] = ("%s %s"):format(name, saved.versions[name]) end
  print("  written by " .. table.concat(versions, ", "))
  for _, name in ipairs(options.names(saved.files)) do print(("  %s  %s"):format(name, overview.size_text(saved.files[name].bytes))) end
  local list = entries(path, headers)
  for _, name in ipairs(options.names(list)) do
    local value = list[name]
    if type(value) == "table" and value.of then
      print(("  %s  %s"):format(name, describe(value.of.dtype or value.of.stored, value.of.shape)))
    elseif name ~= "extra.config" and not name:find "fingerprint$" then
      print(("  %s = %s"):format(name, text.write(value)))
    end
  end
end

local commands = {}

--- What is in them.
function commands.show(...)
  for _, path in ipairs { ... } do show(find(path)) end
end

-- What a path names: a checkpoint, or all of a run, or of a folder.
local function all_of(path)
  local list = checkpoint.list((path:gsub("(.)/+$", "%1")))
  if #list > 0 then return list end
  if not folder.exists(path) then fail(path .. ": there is no checkpoint", 1) end
  return { path }
end

--- Whether their files are as they were written; of a run those of all checkpoints.
function commands.verify(...)
  local damaged, list = false, {}
  for _, path in ipairs { ... } do
    local found = all_of(path)
    table.move(found, 1, #found, #list + 1, list)
  end
  for _, found in ipairs(list) do
    local problems = checkpoint.verify(found)
    for _, problem in ipairs(problems) do print(problem) end
    if #problems == 0 then print(found .. ": all files are as they were written") end
    damaged = damaged or #problems > 0
  end
  if damaged then os.exit(1, true) end
end

-- How tensors of one shape and dtype differ, or nil. NaN is what NaN is; of integers the gap can be too small for a float.
local function tensor_difference(a, b)
  if a.dtype == "bfloat16" then a, b = a:to "float32", b:to "float32" end
  local same = a:eq(b)
  if a.dtype:find "float" then same = same:logical_or(a:isnan():logical_and(b:isnan())) end
  local count = a:numel() - same:to("int64"):sum():item()
  if count == 0 then return nil end
  local gap = (a:to "float64" - b:to "float64"):masked_fill(same, 0):abs():max():item()
  if gap > 0 and gap < math.huge then return ("differ by up to %.6g"):format(gap) end
  return ("differ in %d of %d elements"):format(count, a:numel())
end

-- How two entries differ, or nil.
local function difference(name, a, b)
  if a == nil then return "only in the second" elseif b == nil then return "only in the first" end
  if optlua.is_tensor(a) and optlua.is_tensor(b) then
    if not shape.same(a, b) then return ("%s and %s"):format(shape_text(a), shape_text(b)) end
    if a.dtype ~= b.dtype then return a.dtype .. " and " .. b.dtype end
    return tensor_difference(a, b)
  end
  local left, right = text.write(a), text.write(b)
  if left == right then return nil end
  return name:find "fingerprint$" and "another schedule" or ("%s and %s"):format(left, right)
end

-- Prints how the configs of two differ, key by key; takes them out of the lists.
local function print_configs(a, b)
  local one, other = a["extra.config"], b["extra.config"]
  if type(one) ~= "string" or type(other) ~= "string" then return false end
  a["extra.config"], b["extra.config"] = nil, nil
  local list = policies.differences(one, other)
  for _, item in ipairs(list) do print(("config.%s: %s and %s"):format(item.key, item.now, item.saved)) end
  return #list > 0
end

--- What differs between two.
function commands.diff(first, second, ...)
  if not second or ... then fail "diff needs two checkpoints" end
  local a, b, names = entries(find(first), optlua.load), entries(find(second), optlua.load), {}
  local differs = print_configs(a, b)
  for name in pairs(a) do names[name] = true end
  for name in pairs(b) do names[name] = true end
  for _, name in ipairs(options.names(names)) do
    local found = difference(name, a[name], b[name])
    if found then
      differs = true
      print(("%s: %s"):format(name, found))
    end
  end
  if differs then os.exit(1, true) end
  print "they are the same"
end

-- Whether averages of the weights are among the states of a checkpoint.
local function has_averages(path)
  if not read(path).files["optimizer.safetensors"] then return false end
  local reader <close> = safetensors.open(path .. "/optimizer.safetensors")
  for _, name in ipairs(reader.names) do
    if name:find "%.ema$" or name:find "%.swa$" then return true end
  end
  return false
end

--- Takes the weights out, as one safetensors file: as the checkpoint holds them, which is what was trained, of classes with two
--- forms that for evaluation. Averages (ema, swa) are states, and stay behind; best.safetensors and last.safetensors of a run have
--- what is to be used.
function commands.convert(path, out, ...)
  if ... or not out or not out:find "%.safetensors$" then fail "convert needs a checkpoint and a file that ends with .safetensors" end
  local found = find(path)
  local tensors, metadata = optlua.load(found .. "/weights.safetensors")
  optlua.save(out, tensors, metadata)
  print(out)
  if has_averages(found) then
    io.stderr:write "optlua ckpt: its averages of the weights are not in there; last.safetensors of the run has them\n"
  end
end

local USAGE = [[
usage: optlua ckpt COMMAND PATH...    a PATH is a checkpoint, or a run or a folder, of which the last is taken
  show PATH...            what is in it: sizes, tensors, values
  verify PATH...          whether all files are as they were written; of a run or folder all checkpoints
  diff PATH PATH          what differs; status 1 if something does
  convert PATH FILE       the weights as a safetensors file: as they are trained (of classes with two forms that for
                          evaluation), without averages (ema, swa), which are in last.safetensors of a run]]

--- The command.
---@param ... string
function ckpt.run(...)
  local words = { ... }
  if words[1] == "--help" or words[1] == "help" then return print(USAGE) end
  local command = commands[words[1]]
  if not command then fail(options.unknown("command", tostring(words[1]), options.names(commands))) end
  if not words[2] then fail(words[1] .. ": the path of a checkpoint or of a run is missing") end
  command(table.unpack(words, 2))
end

return ckpt
