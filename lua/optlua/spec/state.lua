--- state: what a run knows of itself; train_step and callbacks are handed it.
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"

---@class optlua.State
---@field spec optlua.Spec
---@field config table its values, checked
---@field model nn.Module the model, of all its parts
---@field model_parts any what build_model returned
---@field optimizers any the optimizer or container that build_optimizers returned, or several by name, of configure_optimizers
---@field lr_schedulers any the scheduler that build_lr_schedulers returned, or several; nil where there is none
---@field loss_fn function what build_loss returned
---@field loader data.Loader of the training set
---@field train data.Dataset the training set
---@field validation data.Dataset? the validation set
---@field step integer updates made
---@field epoch integer from 1
---@field is_passed boolean? whether the run has nothing to do and has been further than where it goes on from
---@field updated_in integer? the epoch of the last update, also of one that was gone back from; nil before the first
---@field training_steps integer updates that the run will have
---@field loss number? of the last update
---@field of_epoch { sum: number, count: number } losses of this epoch so far, by items; their mean is printed
---@field results table<string, number> of the last validation
---@field monitor string what is best: a metric, or loss
---@field best { step: integer, value: number }? of the validation's best
---@field out string? the folder of the run
---@field stopped string? why the run ends before its time
local State = {}
State.__index = State

--- Makes a state.
---@param fields table
---@return optlua.State
local function new(fields)
  fields.step, fields.epoch, fields.results, fields.logged, fields.tensors = 0, 1, {}, {}, {}
  fields.of_epoch = { sum = 0, count = 0 }
  return setmetatable(fields, State)
end

-- What the loop writes itself.
local reserved = { epoch = true, event = true, seconds = true, step = true }

local function check_name(what, name)
  if type(name) ~= "string" or not name:find "^%a[%w_./]*$" then
    blame(("%s: a word for a name expected, got %s"):format(what, tostring(name)))
  end
  if reserved[name] then blame(("%s: %s is written by the loop; choose another name"):format(what, name)) end
end

--- Notes a number for the record of this step: a term of the loss, say. A callback notes for the record of what it follows.
---@param name string
---@param value number|optlua.Tensor a tensor of one element
function State:log(name, value)
  check_name("state:log", name)
  if optlua.is_tensor(value) then value = value:item() end
  self.logged[name] = options.argument("state:log", name, value, { required = true, type = "number" })
end

--- Notes how the elements of a tensor are distributed, as they are now, for the record of this step: in the event file, where
--- TensorBoard shows it. Elements that are not finite are left out.
---@param name string
---@param tensor optlua.Tensor
function State:histogram(name, tensor)
  check_name("state:histogram", name)
  if not optlua.is_tensor(tensor) then
    blame(("state:histogram: %s: a tensor expected, got a %s"):format(name, type(tensor)))
  end
  if self.log_file and self.log_file.events then self.tensors[name] = tensor:detach():clone() end
end

--- Prints a line at once, unless the run is quiet. A run goes on when nobody reads it.
---@param format string
function State:say(format, ...)
  if self.quiet then return end
  io.stdout:write(format:format(...), "\n")
  io.stdout:flush()
end

--- Ends the run after this step.
---@param why? string
function State:stop(why) self.stopped = why or "the script" end

function State:__tostring()
  return ("run of %s: step %d of %d, epoch %d"):format(self.spec.name, self.step, self.training_steps, self.epoch)
end

return { new = new, State = State }
