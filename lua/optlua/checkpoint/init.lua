--- checkpoint: all that a run has learnt, in a folder: weights and states as safetensors, the rest as JSON.
--
--   weights.safetensors    parameters and buffers of the model, by full name
--   optimizer.safetensors  tensors of the optimizer's state_dict, in their own types
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
local record = require "optlua.checkpoint.record"

local checkpoint = {}

local FORMAT = 1

-- How a record of an older format becomes one of the next: upgrades[1] makes format 2 of format 1.
local upgrades = {}

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

local parts = { model = "table", optimizer = "table", scheduler = "table", loader = "table", extra = "table" }

local function check_parts(what, given)
  if type(given) ~= "table" then blame(("%s: a table of parts expected, got a %s"):format(what, type(given))) end
  for key, value in pairs(given) do
    if not parts[key] then blame(("%s: %s"):format(what, options.unknown("part", tostring(key), options.names(parts)))) end
    if type(value) ~= "table" then blame(("%s: %s: a table expected, got a %s"):format(what, key, type(value))) end
  end
  return given
end

local function facts_of(path, names)
  local facts = {}
  for _, name in ipairs(names) do
    local crc, size = host.checksum(path .. "/" .. name)
    facts[name] = { crc32 = crc, bytes = size }
  end
  return facts
end

--- Saves a run in a folder, whole or not at all: until the new one is complete, and on the disk, the old one of that name stays.
---
---     local optlua = require "optlua"
---     local model = optlua.nn.Linear(2, 1)
---     local optimizer = optlua.optim.SGD(model)
---     local path = os.tmpname() .. ".ckpt"
---     optlua.checkpoint.save(path, { model = model, optimizer = optimizer, extra = { step = 7 } })
---     print(optlua.checkpoint.load(path, { model = model, optimizer = optimizer }).step) --> 7
---     require("optlua.checkpoint.folder").remove(path)
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader, extra?: table } extra: plain values of the script's own; the generator's state is saved too
function checkpoint.save(path, given)
  check_parts("checkpoint.save", given)
  local tensors, plain = split(given.optimizer and given.optimizer:state_dict() or {})
  local saved = {
    format = FORMAT, version = optlua.build_info().version, date = os.date "!%Y-%m-%dT%H:%M:%SZ", rng = optlua.get_rng_state(),
    optimizer = given.optimizer and plain, scheduler = given.scheduler and given.scheduler:state_dict(),
    loader = given.loader and given.loader:state_dict(), frozen = given.model and frozen(given.model), extra = given.extra,
  }
  local complete, problem = pcall(record.encode, "checkpoint.save", saved) -- what cannot be saved is named before anything is written
  if not complete then blame(problem) end
  folder.write(path, function(place)
    local names = {}
    if given.model then
      given.model:save(place .. "/weights.safetensors")
      names[#names + 1] = "weights.safetensors"
    end
    if next(tensors) then
      optlua.save(place .. "/optimizer.safetensors", tensors)
      names[#names + 1] = "optimizer.safetensors"
    end
    saved.files = facts_of(place, names)
    host.write_file(place .. "/run.json", record.encode("checkpoint.save", saved))
  end)
end

-- Reading --------------------------------------------------------------------------------------------------

-- Brings a record to the format of now.
local function upgrade(saved, path)
  local format = saved.format
  if math.type(format) ~= "integer" or format < 1 then return nil, path .. "/run.json: it says no format" end
  if format > FORMAT then
    return nil, ("%s: format %d is newer than this version of optlua knows (%d)"):format(path, format, FORMAT)
  end
  for k = format, FORMAT - 1 do upgrades[k](saved) end
  return saved
end

--- The record of a checkpoint: everything that is no tensor.
---@param path string
---@return table? saved
---@return string? problem
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

-- The optimizer's state, from both files, under the names that `rename` gives.
local function optimizer_state(path, saved, rename)
  local state = {}
  for key, value in pairs(saved.optimizer or {}) do state[key] = value end
  if saved.files["optimizer.safetensors"] then
    for name, tensor in pairs((optlua.load(path .. "/optimizer.safetensors"))) do state[name] = tensor end
  end
  if not rename then return state end
  local renamed = rename(state)
  if type(renamed) ~= "table" then blame("checkpoint.load: surgery returns the optimizer's state, a table, not a " .. type(renamed)) end
  return renamed
end

local function restore_frozen(model, names)
  local sleeping = {}
  for _, name in ipairs(names or {}) do sleeping[name] = true end
  for name, tensor in model:named_parameters() do tensor.requires_grad = not sleeping[name] end
end

-- What would be lost or missing, all of it, before anything is changed.
local function check_presence(path, saved, given)
  local problems = checkpoint.verify(path)
  local function need(part, has)
    if given[part] and not has then problems[#problems + 1] = ("%s: it holds no %s"):format(path, part) end
  end
  need("model", saved.files["weights.safetensors"])
  need("optimizer", saved.optimizer)
  need("scheduler", saved.scheduler)
  need("loader", saved.loader)
  return problems
end

local function deep_copy(value)
  if type(value) ~= "table" then return value end
  local result = {}
  for key, item in pairs(value) do result[key] = deep_copy(item) end
  return result
end

-- What schedulers, the loader and the generator refuse, by trying and going back: they are small. Model and optimizer look
-- before they change.
local function rehearse(saved, given, opts)
  local problems = {}
  local function try(what, own, load)
    local ok, problem = pcall(load)
    own()
    if not ok then problems[#problems + 1] = ("%s: %s"):format(what, tostring(problem):gsub("^[^\n]-:%d+: ", "")) end
  end
  local function try_part(name, ...)
    local part, more = given[name], table.pack(...)
    if not part or not saved[name] then return end
    local before = deep_copy(part:state_dict())
    try(name, function() part:load_state_dict(before) end,
      function() part:load_state_dict(deep_copy(saved[name]), table.unpack(more)) end)
  end
  try_part("scheduler", { resume = opts.resume })
  try_part "loader"
  local rng = optlua.get_rng_state()
  if opts.rng then try("generator", function() optlua.set_rng_state(rng) end, function() optlua.set_rng_state(saved.rng) end) end
  return problems
end

--- Loads what `save` saved into the parts that are handed over, by name, and the generator's state. What does not fit, or is
--- damaged, raises and is named, and nothing has changed.
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader }
---@param opts? { rename?: table|function, surgery?: fun(state: table): table, resume?: "config"|"rebase"|"error", rng?: boolean } rename: of the model's names, as in module:load; surgery: makes another optimizer state of the saved one; resume: what happens when a schedule is another one (see scheduler:load_state_dict)
---@return table extra
---@return string[] differences of schedules
function checkpoint.load(path, given, opts)
  opts = options.check("checkpoint.load", opts, { rename = { required = false, type = "table|function" },
    surgery = { required = false, type = "function" }, resume = { default = "config", choices = { "config", "rebase", "error" } },
    rng = true })
  check_parts("checkpoint.load", given)
  local saved, problem = checkpoint.read(path)
  if not saved then blame("checkpoint.load: " .. problem) end
  local problems = check_presence(path, saved, given)
  if #problems == 0 then problems = rehearse(saved, given, opts) end
  if #problems > 0 then blame("checkpoint.load: " .. table.concat(problems, "\ncheckpoint.load: ")) end
  local before = given.optimizer and given.optimizer:state_dict()
  local kept = {}
  for key, value in pairs(before or {}) do kept[key] = optlua.is_tensor(value) and value:clone() or value end
  if given.optimizer then given.optimizer:load_state_dict(optimizer_state(path, saved, opts.surgery)) end
  if given.model then
    local ok, wrong = pcall(given.model.load, given.model, path .. "/weights.safetensors", { rename = opts.rename })
    if not ok then
      if before then given.optimizer:load_state_dict(kept) end
      error(wrong, 0)
    end
    restore_frozen(given.model, saved.frozen)
  end
  local differences = given.scheduler and given.scheduler:load_state_dict(saved.scheduler, { resume = opts.resume }) or {}
  if given.loader then given.loader:load_state_dict(saved.loader) end
  if opts.rng then optlua.set_rng_state(saved.rng) end
  return saved.extra or {}, differences
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
