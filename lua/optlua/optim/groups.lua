--- groups: ready lists of groups, for optim.container; in a spec, for what param_groups = function(model) … end returns.
local options = require "optlua.options"
local blame = require "optlua.blame"
local match = require "optlua.optim.match"
local params = require "optlua.optim.params"

local groups = {}

-- Adds to a group what was given for it.
local function with(group, fields)
  for key, value in pairs(fields or {}) do group[key] = value end
  return group
end

--- Two groups: "no_decay", biases and all parameters of norm layers, by role, with weight_decay = 0; and "decay", the
--- rest.
---
---     local optlua = require "optlua"
---     local nn, optim = optlua.nn, optlua.optim
---     local model = nn.Sequential { nn.Linear(4, 4), nn.LayerNorm(4) }
---     local optimizer = optim.container(model, optim.groups.no_decay(), { class = "AdamW", weight_decay = 0.1 })
---     print(optimizer.groups.no_decay.weight_decay, #optimizer.groups.no_decay.names) --> 0 3
---@param opts? { roles?: string[], decay?: table, no_decay?: table } roles: default { "bias", "norm" }; decay, no_decay: more fields of each group
---@return table[]
function groups.no_decay(opts)
  if params.is_module(opts) then
    blame "optim.groups.no_decay: takes no module: optim.container(model, optim.groups.no_decay(), { class = \"AdamW\" })"
  end
  opts = options.check("optim.groups.no_decay", opts,
    { roles = { default = { "bias", "norm" }, type = "list" }, decay = { default = {}, type = "table" },
      no_decay = { default = {}, type = "table" } })
  local roles = {}
  for _, role in ipairs(opts.roles) do roles[role] = true end
  local function is_spared(name, param, module) return roles[params.role(name, param, module)] == true end
  return {
    with({ name = "no_decay", match = is_spared, weight_decay = 0, optional = true }, opts.no_decay),
    with({ name = "decay", match = "*", optional = true }, opts.decay),
  }
end

-- The part of a parameter's name that says its layer: up to the first number, else the first word.
local function stage_of(name)
  local numbered = name:match "^(.-%d+)%." or name:match "^(%d+)$"
  if numbered and numbered:find "%.%d+$" or numbered and numbered:find "^%d+$" then return numbered, true end
  return name:match "^[^.]*", false
end

--- The layer of each parameter, from the structure of the model: what comes before the first numbered
--- layer is layer 0, each numbered one (blocks.0, blocks.1 …) is the next, and what follows the last is one
--- more. A model without numbers has a layer for each of its children.
---@param model table
---@return table<string, integer> layer_of by full name
---@return integer last
local function layers(model)
  local stages, seen, any = {}, {}, false
  for name in model:named_parameters() do
    local stage, numbered = stage_of(name)
    any = any or numbered
    if not seen[stage] then
      seen[stage] = { numbered = numbered }
      stages[#stages + 1] = stage
    end
  end
  local depth, previous = -1, nil
  for _, stage in ipairs(stages) do
    local own = seen[stage]
    if depth < 0 or not any or own.numbered or previous.numbered then depth = depth + 1 end
    own.depth, previous = depth, own
  end
  local layer_of = {}
  for name in model:named_parameters() do layer_of[name] = seen[stage_of(name)].depth end
  return layer_of, math.max(depth, 0)
end

--- One group a layer, "layer_0" at the input, …, with the rate multiplied by decay for each layer that lies
--- between it and the output (Clark et al., 2020, ELECTRA). Layers are found in the structure of the model: what
--- precedes the numbered ones (blocks.0 …), each of these, what follows. Frozen ones count.
---@param model table a module
---@param decay number above 0, at most 1
---@return table[]
function groups.layerwise_decay(model, decay)
  if not params.is_module(model) then blame "optim.groups.layerwise_decay: a module expected" end
  decay = options.argument("optim.groups.layerwise_decay", "decay", decay,
    { required = true, type = "number", above = 0, max = 1 })
  local layer_of, last = layers(model)
  local list = {}
  for depth = 0, last do
    list[#list + 1] = {
      name = "layer_" .. depth, lr_scale = decay ^ (last - depth),
      match = function(name) return layer_of[name] == depth end,
    }
  end
  return list
end

-- The full name of the last matrix that is no embedding: the head, most likely.
local function last_matrix(model)
  local last
  for name, param, module in model:named_parameters() do
    if param.ndim == 2 and params.role(name, param, module) == "weight" then last = name end
  end
  return last
end

--- Two groups: "muon", the weight matrices of hidden layers, by Muon; and "adamw", embeddings, the head, norms and biases,
--- by AdamW. The head is the last weight matrix of the model, unless `head`, a glob, names it.
---@param model table a module
---@param opts? { head?: string, muon?: table, adamw?: table } muon, adamw: hyperparameters of each
---@return table[]
function groups.muon_adamw(model, opts)
  if not params.is_module(model) then blame "optim.groups.muon_adamw: a module expected" end
  opts = options.check("optim.groups.muon_adamw", opts,
    { head = { required = false, type = "string" }, muon = { default = {}, type = "table" },
      adamw = { default = {}, type = "table" } })
  local is_head, problem = match.compile(opts.head or last_matrix(model) or "")
  if problem and opts.head then blame("optim.groups.muon_adamw: " .. problem) end
  local function is_hidden(name, param, module)
    return param.ndim == 2 and params.role(name, param, module) == "weight" and not (is_head and is_head(name))
  end
  return {
    with({ name = "muon", match = is_hidden, class = "Muon", optional = true }, opts.muon),
    with({ name = "adamw", match = "*", class = "AdamW", optional = true }, opts.adamw),
  }
end

return options.strict("optim.groups", groups)
