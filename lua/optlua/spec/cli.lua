--- cli: the command line of a spec.
local optlua = require "optlua"
local checkpoint = require "optlua.checkpoint"
local command = require "optlua.config.command"
local files = require "optlua.files"
local folder = require "optlua.spec.folder"
local folders = require "optlua.checkpoint.folder"
local help = require "optlua.config.help"
local loop = require "optlua.spec.loop"
local overview = require "optlua.optim.overview"
local policies = require "optlua.spec.policy"
local resume = require "optlua.spec.resume"
local run = require "optlua.spec.run"
local shape = require "optlua.shape"

local switches = {
  { "--help", "prints this and ends" },
  { "--config FILE", "takes values from a file: Lua data, JSON or YAML; may be given again" },
  { "--print-config", "prints the config as a config file and ends" },
  { "--plan", "prints parameters, groups, curves and memory, and ends" },
  { "--diff RUN", "with --plan: what going on from a run, or a checkpoint, would change" },
  { "--out DIR", "the folder of the run; default: runs/NAME" },
  { "--resume [PATH]", "goes on from a checkpoint, or from the last one of a run (default: of the runs/NAME… that which wrote one last)" },
  { "--resume-policy P", "whose values hold where config and checkpoint differ: config (default), checkpoint (but for keys of the command line), or rebase (an edited schedule begins anew); for one key: P,KEY=P" },
  { "--surgery FILE", "of a checkpoint that --resume goes on from, or of the weights of --from: a Lua file whose function changes names and tensors; see checkpoint.load" },
  { "--from FILE", "begins with the weights of a safetensors file" },
  { "--eval FILE", "validates the weights of a file, or the best of a run, and ends" },
  { "--dry-run", "makes one update and one validation, writes nothing, and ends" },
  { "--overfit-batches N", "trains on the first N batches only" },
  { "--find-lr", "tries rising rates for some updates and prints a good one" },
  { "--watch", "takes over changes of the script and of config files while it runs" },
}
local kinds = { diff = "value", help = "flag", config = "value", ["print-config"] = "flag", plan = "flag", out = "value", from = "value",
  eval = "value", resume = "optional", ["resume-policy"] = "value", surgery = "value", ["dry-run"] = "flag", ["overfit-batches"] = "value", ["find-lr"] = "flag", watch = "flag" }

-- What is wrong with the command line ends the program with the status of a wrong usage.
local function refuse(problems)
  io.stderr:write("optlua: ", table.concat(problems, "\noptlua: "), "\n")
  os.exit(2, true)
end

-- Bytes of parameters and gradients, and of states.
local function memory_text(state)
  local weights, largest, states = 0, 0, overview.state_bytes(state.optimizers)
  for _, tensor in state.model:named_parameters() do
    weights, largest = weights + shape.bytes(tensor), math.max(largest, shape.bytes(tensor))
  end
  local size, one_by_one = overview.size_text, state.optimizers._updater
  return ("memory: parameters %s, gradients %s, optimizer states %s; activations come on top"):format(size(weights),
    one_by_one and size(largest) .. " at a time" or size(weights), size(states))
end

local function print_plan(state)
  print(tostring(state.model))
  if state.manual then
    for name, optimizer in pairs(state.optimizers) do print(("%s:\n%s"):format(name, optimizer:plan())) end
    return
  end
  print(state.optimizers:plan())
  print(state.optimizers:preview { steps = math.max(1, math.min(state.training_steps, 100000)) })
  print(memory_text(state))
end

-- What going on from a checkpoint would change: it is loaded into a state that nobody uses.
local function print_diff(state, config, going)
  print(("from %s, with this config:"):format(going.path))
  state.config_text = config:text()
  resume.load(state, going.path, going.policy, going.surgery)
end

local function plan(spec, cfg, config, going)
  local state = run.build(spec, cfg)
  print_plan(state)
  if going then print_diff(state, config, going) end
end

-- The weights that a path means: a file of them, the best of a run, or those of a checkpoint.
local function find_weights(path)
  if not folders.exists(path) then return path end
  for _, name in ipairs { "best.safetensors", "weights.safetensors" } do
    if files.exists(path .. "/" .. name) then return path .. "/" .. name end
  end
  refuse { ("--eval: %s: there is no best.safetensors; a file of weights, a run or a checkpoint expected"):format(path) }
end

local function evaluate(spec, cfg, path)
  path = find_weights(path)
  local state = run.build(spec, cfg)
  if not state.validation then refuse { "--eval: build_data returns no validation set" } end
  state.model:load(path)
  local results = loop.validate(state)
  local names = {}
  for name in pairs(results) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do print(("validation %s %.17g"):format(name, results[name])) end
end

-- A whole number behind a switch.
local function count(name, word)
  local value = math.tointeger(tonumber(word))
  if not value or value < 1 then refuse { ("--%s: a number from 1 expected, got %s"):format(name, tostring(word)) } end
  return value
end

-- When a run wrote its last checkpoint.
local function last_date(path)
  local last = ""
  for _, one in ipairs(checkpoint.list(path .. "/checkpoints")) do
    local date = (checkpoint.read(one) or {}).date
    if type(date) == "string" and date > last then last = date end
  end
  return last
end

-- The last checkpoint of that run of a name that wrote one last.
local function last_of(name)
  local runs = {}
  for k, path in ipairs((folder.runs(name))) do runs[k] = { path = path, date = last_date(path), k = k } end
  table.sort(runs, function(a, b)
    if a.date == b.date then return a.k < b.k end
    return a.date > b.date
  end)
  for _, one in ipairs(runs) do
    local found = resume.find(one.path)
    if found then return found end
  end
  refuse { ("--resume: there is no run of %s with a checkpoint; name its folder"):format(name) }
end

-- The checkpoint that a switch means.
local function find_checkpoint(spec, given)
  local path = given.diff or given.resume ~= true and given.resume or given.out
  if not path then return last_of(spec.name) end
  local found, problem = resume.find(path)
  local hint = path == given.out and "; beside --out it goes on in that folder, --resume PATH with another run" or ""
  if not found then refuse { ("--%s: %s%s"):format(given.diff and "diff" or "resume", problem, hint) } end
  return found
end

-- The function of the file that --surgery names.
local function read_surgery(path)
  if not path then return nil end
  local chunk, problem = loadfile(path, "t")
  local fn = chunk and chunk()
  if type(fn) ~= "function" then refuse { "--surgery: " .. (problem or path .. " returns no function") } end
  return fn
end

-- From where a run goes on, and whose values hold: { path =, policy =, surgery =, config = }, the text that was saved; nil: it
-- begins.
local function read_going(spec, given)
  if not given.resume and not given.diff then
    if given.surgery and not given.from then refuse { "--surgery stands beside --resume, --from, or --plan --diff" } end
    return nil
  end
  local policy, problem = policies.new(given["resume-policy"], given)
  if not policy then refuse { "--resume-policy: " .. problem } end
  local path = find_checkpoint(spec, given)
  return { path = path, policy = policy, surgery = read_surgery(given.surgery), config = ((checkpoint.read(path) or {}).extra or {}).config }
end

-- A run that goes on stays in its folder unless --out names another.
local function set_going(spec, given, going, opts)
  opts.resume, opts.policy, opts.surgery = going.path, going.policy, going.surgery
  if not given.out and not given["dry-run"] then
    opts.out = going.path:match "^(.*)/checkpoints/[^/]+$" or function() return folder.choose(spec.name) end
  end
end

local function train(spec, cfg, config, given, words, going, begin)
  local opts = { from = given.from, surgery = given.from and read_surgery(given.surgery), quiet = false }
  if given["overfit-batches"] then opts.overfit_batches = count("overfit-batches", given["overfit-batches"]) end
  if given["dry-run"] then
    opts.limit = 1
  else
    opts.out = given.out or function() return folder.choose(spec.name) end
  end
  if going then set_going(spec, given, going, opts) end
  opts.prepare = require("optlua.spec.reload").prepare(spec, words, given, kinds, begin)
  local result = run.train(spec, cfg, config, opts)
  if result.signal then os.exit(128 + result.signal, true) end
  if result.state.log_failed then os.exit(1, true) end
end

-- The config of a command line: of a run that goes on, with what its policy takes from the checkpoint; then what the words say.
local function read_config(spec, words)
  local function begin(config, going)
    config.switches = {}
    for name in pairs(kinds) do table.insert(config.switches, name) end
    if going and going.policy:asks_checkpoint() then going.policy:apply(config, going.config) end
    return config
  end
  local config = begin(spec:new_config())
  local given, problems = command.read(words, config, kinds)
  if #problems > 0 or given.help then return config, given, problems end
  local going = read_going(spec, given)
  if going and going.policy:asks_checkpoint() then
    config = begin(spec:new_config(), going)
    given, problems = command.read(words, config, kinds)
  end
  return config, given, problems, going, function(new) return begin(new, going) end
end

--- Runs the command line of a spec.
---@param spec optlua.Spec
---@param ... string the words behind the script
local function main(spec, ...)
  local words = { ... }
  local config, given, problems, going, begin = read_config(spec, words)
  if given.help then
    print(help.text(config, ("usage: optlua %s [--key=value ...] [switches]"):format((_G.arg or {})[0] or "SCRIPT"), switches))
    return
  end
  for _, problem in ipairs(problems) do config:complain("%s", problem) end
  local cfg
  cfg, problems = config:check()
  if #problems > 0 then refuse(problems) end
  for _, note in ipairs(config.notes) do io.stderr:write("optlua: ", note, "\n") end
  local wrong = going and going.policy:check(config, going.config)
  if wrong then refuse { "--resume-policy: " .. wrong } end
  if given["print-config"] then return io.write(config:text()) end
  if given.diff and not given.plan then refuse { "--diff stands beside --plan" } end
  if given.plan then return plan(spec, cfg, config, given.diff and going) end
  if given.eval then return evaluate(spec, cfg, given.eval) end
  if given["find-lr"] then return require("optlua.spec.finder")(spec, cfg, given.out and given.out .. "/find_lr.svg") end
  optlua.manual_seed(cfg.seed)
  train(spec, cfg, config, given, words, going, begin)
end

return main
