--- checkpoint: all that a run has learnt, in a folder: weights and states as safetensors, the rest as JSON.
--
--   weights.safetensors    parameters and buffers of the model, by full name
--   optimizer.safetensors  tensors of the optimizer's state_dict, in their own types
--   gradients.safetensors  where they were asked for: gradients of a window that is not at its end
--   run.json               format, sizes and checksums of the files, and everything that is no tensor
--
-- In a plain loop `checkpoint.save(path, { model =, optimizer =, scheduler =, loader =, extra = })` writes one and
-- `checkpoint.load`, with the same parts, goes on from it; `checkpoint.latest(folder)` finds the last that is whole. A spec
-- writes them by itself into runs/NAME/checkpoints: after the first epoch or minute, then every checkpoint_minutes (10) or
-- checkpoint_every updates, at the end, and on SIGINT (Ctrl-C) or SIGTERM; `--resume` goes on. `optlua ckpt` shows, verifies
-- and compares them.
local files = require "optlua.files"
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local folder = require "optlua.checkpoint.folder"
local loading = require "optlua.checkpoint.loading"
local record = require "optlua.checkpoint.record"

local checkpoint = {}

local FORMAT = 2

-- How a record of an older format becomes one of the next: upgrades[1] makes format 2 of format 1.
local upgrades = {
  function(saved) -- knew of optlua's own version alone
    saved.versions, saved.version = { optlua = saved.version }, nil
  end,
}

-- Saving ---------------------------------------------------------------------------------------------------

-- The tensors of a state, and the rest.
local function split(state)
  local tensors, plain = {}, {}
  for key, value in pairs(state) do
    if optlua.is_tensor(value) then tensors[key] = value else plain[key] = value end
  end
  return tensors, plain
end

local function frozen(model)
  local names = {}
  for name, tensor in model:named_parameters() do
    if not tensor.requires_grad then names[#names + 1] = name end
  end
  return names
end

local parts = { model = "table", optimizer = "table", scheduler = "table", loader = "table", extra = "table", gradients = "boolean" }

local function check_parts(what, given)
  if type(given) ~= "table" then blame(("%s: a table of parts expected, got a %s"):format(what, type(given))) end
  for key, value in pairs(given) do
    if not parts[key] then blame(("%s: %s"):format(what, options.unknown("part", tostring(key), options.names(parts)))) end
    if type(value) ~= parts[key] then blame(("%s: %s: a %s expected, got a %s"):format(what, key, parts[key], type(value))) end
  end
  return given
end

local function versions()
  local facts = optlua.build_info()
  return { optlua = facts.version, lua = _VERSION, blas = facts.blas, threads = optlua.get_num_threads() }
end

local function gradients(model)
  local found = {}
  for name, tensor in model:named_parameters() do found[name] = tensor.grad end
  return found
end

local function facts_of(path, names)
  local facts = {}
  for _, name in ipairs(names) do
    local crc, size = host.checksum(path .. "/" .. name)
    facts[name] = { crc32 = crc, bytes = size }
  end
  return facts
end

-- Writes a checkpoint of what is there now. `mode`: the form that parameters of classes with two had.
local function write_now(path, given, mode)
  local tensors, plain = split(given.optimizer and given.optimizer:state_dict() or {})
  local pending = given.gradients and given.model and gradients(given.model) or {}
  local saved = {
    format = FORMAT, versions = versions(), date = os.date "!%Y-%m-%dT%H:%M:%SZ", rng = optlua.get_rng_state(),
    optimizer = given.optimizer and plain, scheduler = given.scheduler and given.scheduler:state_dict(),
    loader = given.loader and given.loader:state_dict(), frozen = given.model and frozen(given.model), mode = mode, extra = given.extra,
  }
  local complete, problem = pcall(record.encode, "checkpoint.save", saved) -- what cannot be saved is named before anything is written
  if not complete then blame(problem) end
  folder.write(path, function(place)
    local names = {}
    local function put(name, has, write)
      if not has then return end
      write(place .. "/" .. name)
      names[#names + 1] = name
    end
    put("weights.safetensors", given.model, function(file) given.model:save(file) end)
    put("optimizer.safetensors", next(tensors), function(file) optlua.save(file, tensors) end)
    put("gradients.safetensors", next(pending), function(file) optlua.save(file, pending) end)
    saved.files = facts_of(place, names)
    host.write_file(place .. "/run.json", record.encode("checkpoint.save", saved))
  end)
end

--- Saves a run in a folder, whole or not at all: until the new one is complete, and on the disk, the old one of that name stays.
--- Parameters that have two forms (ScheduleFreeAdamW) are written in that for evaluation, and the optimizer's state has what it
--- takes to go on bit for bit.
---
---     local optlua = require "optlua"
---     local model = optlua.nn.Linear(2, 1)
---     local optimizer = optlua.optim.SGD(model)
---     local path = os.tmpname() .. ".ckpt"
---     optlua.checkpoint.save(path, { model = model, optimizer = optimizer, extra = { step = 7 } })
---     print(optlua.checkpoint.load(path, { model = model, optimizer = optimizer }).step) --> 7
---     require("optlua.checkpoint.folder").remove(path)
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader, extra?: table, gradients?: boolean } extra: plain values of the script's own; gradients: whether gradients that are present are saved, for a save between two backward passes of one update; the generator's state is saved too
function checkpoint.save(path, given)
  check_parts("checkpoint.save", given)
  local optimizer = given.model and given.optimizer
  if not (optimizer and optimizer._evaluated) then return write_now(path, given) end
  local mode = optimizer:_mode()
  optimizer:_evaluated(function() write_now(path, given, mode) end)
end

-- Reading --------------------------------------------------------------------------------------------------

-- Brings a record to the format of now.
local function upgrade(saved, path)
  local format = saved.format
  if math.type(format) ~= "integer" or format < 1 then return nil, path .. "/run.json: it says no format" end
  if format > FORMAT then
    return nil, ("%s: format %d is newer than this version of optlua knows (%d)"):format(path, format, FORMAT)
  end
  if type(saved.files) ~= "table" then return nil, path .. "/run.json: it lists no files" end
  for k = format, FORMAT - 1 do upgrades[k](saved) end
  saved.format = FORMAT
  return saved, nil, format
end

--- The record of a checkpoint: everything that is no tensor.
---@param path string
---@return table? saved
---@return string? problem
---@return integer? format that it was written in
function checkpoint.read(path)
  local text, problem = files.read(path .. "/run.json")
  if not text then return nil, problem end
  local saved
  saved, problem = record.decode(text)
  if not saved then return nil, ("%s/run.json: %s"):format(path, problem) end
  return upgrade(saved, path)
end

--- What is wrong with the files of a checkpoint; nothing when all is well.
---@param path string
---@return string[] problems
function checkpoint.verify(path)
  local saved, problem = checkpoint.read(path)
  if not saved then return { problem } end
  local problems = {}
  for _, name in ipairs(options.names(saved.files or {})) do
    local fact = saved.files[name]
    local ok, crc, size = pcall(host.checksum, path .. "/" .. name)
    if not ok then
      problems[#problems + 1] = tostring(crc)
    elseif size ~= fact.bytes then
      problems[#problems + 1] = ("%s/%s: %d bytes, %d were written"):format(path, name, size, fact.bytes)
    elseif crc ~= fact.crc32 then
      problems[#problems + 1] = ("%s/%s: the checksum is another one than when it was written"):format(path, name)
    end
  end
  return problems
end

-- Loading --------------------------------------------------------------------------------------------------

--- Loads what `save` saved into the parts that are handed over, by name, and the generator's state. Everything that does not fit,
--- or is damaged, is named in one error, and nothing has changed.
---
---     local optlua = require "optlua"
---     local path, old, new = os.tmpname() .. ".ckpt", optlua.nn.Linear(2, 4), optlua.nn.Sequential { optlua.nn.Linear(2, 2), optlua.nn.Linear(2, 2) }
---     optlua.checkpoint.save(path, { model = old })
---     optlua.checkpoint.load(path, { model = new }, { surgery = function(saved)
---       for _, kind in ipairs { "weight", "bias" } do saved:split(kind, { "0." .. kind, "1." .. kind }) end
---     end })
---     print(new[2].bias:equal(old.bias:narrow(1, 3, 2))) --> true
---     require("optlua.checkpoint.folder").remove(path)
---
--- surgery: a function that is handed what was read and changes names and tensors, of weights and of the optimizer's states alike:
---   saved:rename("old", "new"), saved:rename(function(name) … end), which gives the new name, nil for the same or false to drop it
---   saved:drop("head.*"), by a glob
---   saved:split("qkv.weight", { "q.weight", "k.weight", "v.weight" }, { dim = 1, sizes = { … } }), equal pieces without sizes
---   saved:join({ "q.weight", "k.weight" }, "qk.weight", { dim = 1 })
---   saved:forget("head.*"): the states of these parameters begin anew
---   saved.weights, saved.state: tables by name, for all else
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader }
---@param opts? { surgery?: fun(saved: optlua.checkpoint.Surgery), strict?: boolean, resume?: "config"|"rebase"|"error", rng?: boolean } strict: with false names may be missing (weights stay, states begin anew) or unexpected; resume: what happens when a schedule is another one (see scheduler:load_state_dict); rng: whether the generator goes on too
---@return table extra
---@return string[] differences of schedules
---@return { model?: table, optimizer?: table } report by part: the names that were `missing` and `unexpected`
function checkpoint.load(path, given, opts)
  opts = options.check("checkpoint.load", opts, { surgery = { required = false, type = "callable" }, strict = true,
    resume = { default = "config", choices = { "config", "rebase", "error" } }, rng = true })
  check_parts("checkpoint.load", given)
  local saved, problem = checkpoint.read(path)
  if not saved then blame("checkpoint.load: " .. problem) end
  return loading.load(path, saved, given, opts, checkpoint.verify(path))
end

-- Many -------------------------------------------------------------------------------------------------------

--- The checkpoints in a folder, by name.
---@param path string
---@return string[] paths
function checkpoint.list(path)
  local ok, entries = pcall(host.folder_list, path)
  local found = {}
  for _, entry in ipairs(ok and entries or {}) do
    local place = path .. "/" .. entry.name
    if entry.is_folder and not folder.is_temporary(entry.name) and files.exists(place .. "/run.json") then found[#found + 1] = place end
  end
  return found
end

--- The last checkpoint in a folder that is whole; the names of later ones that are damaged come with it.
---@param path string
---@return string? path
---@return string[] damaged
function checkpoint.latest(path)
  local list, damaged = checkpoint.list(path), {}
  for k = #list, 1, -1 do
    if #checkpoint.verify(list[k]) == 0 then return list[k], damaged end
    damaged[#damaged + 1] = list[k]
  end
  return nil, damaged
end

return options.strict("optlua.checkpoint", checkpoint)
