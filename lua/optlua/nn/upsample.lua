--- upsample: lines and images of another size.
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local functional = require "optlua.nn.functional"
local window = require "optlua.nn.window"
local signature = require "optlua.signature"

--- Lines (N, C, L) or images (N, C, H, W) of another size, given by size or by scale_factor, a number or one for
--- rows and one for columns; "linear" is for lines, "bilinear" for images.
---@class nn.Upsample: nn.Module
local Upsample = module.class "Upsample"

Upsample.signature = signature.new("nn.Upsample", {
  { "size", window.sizes(1) }, { "scale_factor", { required = false, type = "number|list", above = 0 } },
  { "mode", { default = "nearest", choices = { "nearest", "linear", "bilinear" } } },
  { "align_corners", { required = false, type = "boolean" } },
})

function Upsample:init(...)
  local args = self.signature:read(...)
  if (args.size == nil) == (args.scale_factor == nil) then
    blame("nn.Upsample: expected either size or scale_factor")
  end
  self.size = args.size
  self.scale_factor = args.scale_factor
  self.mode = args.mode
  self.align_corners = args.align_corners
end

Upsample.samples = [[
  { { { size = 7 } }, t(2, 3, 4) },
  { { { scale_factor = { 2, 1.5 } } }, t(1, 2, 3, 4) },
  { { { scale_factor = 2.3, mode = "linear" } }, t(2, 3, 5) },
  { { { 7, 6 }, { mode = "bilinear" } }, t(5, 4, 3, 2):transpose(1, 4) },
  { { { scale_factor = { 2, 1.6 }, mode = "bilinear" } }, t(1, 2, 3, 4) },
  { { { size = { 7, 3 }, mode = "bilinear", align_corners = true } }, t(2, 3, 4, 5) },
  { { { size = 7 } }, t(0, 3, 4, 5) },
]]

function Upsample:forward(x)
  return functional.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)
end

function Upsample:extra_repr()
  local name = self.size and "size" or "scale_factor"
  return ("%s=%s, mode='%s'"):format(name, window.text(self[name]), self.mode)
end

return { Upsample = Upsample }
