--- flatten: layers that merge and split dimensions.
local module = require "optlua.nn.module"
local signature = require "optlua.signature"
local window = require "optlua.nn.window"

--- Merges dimensions start_dim … end_dim into one: (N, C, H, W) -> (N, C·H·W).
---@class nn.Flatten: nn.Module
local Flatten = module.class "Flatten"

Flatten.signature = signature.new("nn.Flatten",
  { { "start_dim", { default = 2, integer = true } }, { "end_dim", { default = -1, integer = true } } })

function Flatten:init(...)
  local args = self.signature:read(...)
  self.start_dim = args.start_dim
  self.end_dim = args.end_dim
end

Flatten.samples = [[
  { {}, t(2, 3, 4) },
  { { 1, 2 }, t(2, 3, 4) },
  { { { start_dim = -2 } }, t(4, 3, 2):transpose(1, 3) },
  { {}, t(0, 3, 2) },
]]

function Flatten:forward(x) return x:flatten(self.start_dim, self.end_dim) end

function Flatten:extra_repr() return ("start_dim=%d, end_dim=%d"):format(self.start_dim, self.end_dim) end

--- Splits dimension dim into unflattened_size, of which one may be -1: (N, 6) -> (N, 2, 3).
---@class nn.Unflatten: nn.Module
local Unflatten = module.class "Unflatten"

Unflatten.signature = signature.new("nn.Unflatten", {
  { "dim", { required = true, type = "integer" } },
  { "unflattened_size", { required = true, type = "list", integer = true, min = -1 } },
})

function Unflatten:init(...)
  local args = self.signature:read(...)
  self.dim = args.dim
  self.unflattened_size = args.unflattened_size
end

Unflatten.samples = [[
  { { 2, { 2, 3 } }, t(4, 6) },
  { { 1, { 2, -1 } }, t(6, 3) },
  { { -1, { 3, 2 } }, t(6, 4):t() },
  { { 2, { 2, 3 } }, t(0, 6) },
]]

function Unflatten:forward(x) return x:unflatten(self.dim, self.unflattened_size) end

function Unflatten:extra_repr()
  return ("dim=%d, unflattened_size=%s"):format(self.dim, window.text(self.unflattened_size))
end

return { Flatten = Flatten, Unflatten = Unflatten }
