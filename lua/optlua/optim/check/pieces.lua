--- pieces: whether parameters are updated each by itself: cut in pieces, in groups of their own, beside absent and empty ones, of
--- no dimension, with gradients of any layout.
local subjects = require "optlua.optim.check.subject"
local trial = require "optlua.optim.check.trial"

local pieces = {}

local UPDATES = 6

local function elementwise(subject)
  if not subject.rule then return nil, subject.why end
  if not subject.rule.elementwise then return nil, "the rule is not elementwise" end
  if subject.rule.adds then return nil, "the rule adds up elements" end
  for _, slot in pairs(subject.rule.slots) do
    if slot.dtype == "bfloat16" then return nil, "its states are rounded" end
  end
  return true
end

--- A tensor in one piece and in two gives the same bits.
function pieces.tensors(subject)
  local fits, why = elementwise(subject)
  if not fits then return false, why end
  for _, shape in ipairs(subject.shapes) do
    local rows = shape[1]
    if rows and rows > 1 then
      local top, bottom = { table.unpack(shape) }, { table.unpack(shape) }
      top[1], bottom[1] = 1, rows - 1
      if subjects.accepts(subject.class, top) and subjects.accepts(subject.class, bottom) then
        local whole = trial.new(subject, { pieces = { { name = "p1", shape = shape, first = 0 } } })
        local cut = trial.new(subject, { pieces = { { name = "p1", shape = top, first = 0 },
          { name = "p2", shape = bottom, first = subjects.count(shape) // rows } } })
        trial.same_elements(whole:run(UPDATES), cut:run(UPDATES), "whole and cut in two")
        return nil
      end
    end
  end
  return false, "no piece of a parameter is accepted"
end

local function without_numbers(subject)
  if not subject.class.update then return nil, subject.why end
  if subject.numbers then return nil, "the group has numbers" end
  return true
end

--- Parameters in one group and in groups of their own give the same bits.
function pieces.groups(subject)
  local fits, why = without_numbers(subject)
  if not fits then return false, why end
  local shapes = { table.unpack(subject.shapes) }
  shapes[#shapes + 1] = shapes[1]
  local list, names, one = trial.pieces(shapes), {}, {}
  for k, piece in ipairs(list) do names[k], one[k] = piece.name, { piece.name } end
  local together = trial.new(subject, { pieces = list, groups = { names } }):run(UPDATES):picture()
  local apart = trial.new(subject, { pieces = list, groups = one }):run(UPDATES):picture()
  trial.same(together, apart, "in one group and in several", "[ .]p%d") -- parameters and states
end

-- Whether the second of two parameters has no gradient, or none has.
local function is_absent(name, now) return now == 4 or name == "p2" and (now == 2 or now == 3) end

--- A parameter without a gradient is left alone, with its count; a step without any does nothing.
function pieces.absent(subject)
  if subject.class.step and subject.class.needs_closure then return false, "its step asks for the gradients itself" end
  local list = trial.pieces { subject.shapes[1], subject.shapes[1] }
  local one = trial.new(subject, { pieces = list })
  one.is_absent = is_absent
  one:run(1)
  local before = one:picture()
  one:run(2)
  trial.same(before, one:picture(), "without a gradient", "[ .]p2")
  before = one:picture()
  one:run(1)
  trial.same(before, one:picture(), "after a step without any gradient")
  one:run(2)
  local class = subject.class
  if subject.numbers or class.gradients or not class.update then return nil end -- parameters depend on each other
  local alone = trial.new(subject, { pieces = { list[2] } }):run(1)
  alone.now = 5
  trial.same(one:picture(), alone:run(2):picture(), "beside another parameter and alone", "[ .]p2")
end

local function empty_shape(subject)
  for _, shape in ipairs(subject.shapes) do
    for d = 1, #shape do
      local sizes = { table.unpack(shape) }
      sizes[d] = 0
      if subjects.accepts(subject.class, sizes) then return sizes end
    end
  end
end

--- An empty parameter changes nothing for the others.
function pieces.empty(subject)
  local shape = empty_shape(subject)
  if not shape then return false, "they are not accepted" end
  local full = trial.pieces(subject.shapes)
  local list = { full[1], { name = "empty", shape = shape, first = 0 }, table.unpack(full, 2) }
  local with = trial.new(subject, { pieces = list }):run(UPDATES):picture()
  for name in pairs(with) do
    if name:find "empty" then with[name] = nil end
  end
  trial.same(trial.new(subject, { pieces = full }):run(UPDATES):picture(), with, "with an empty parameter and without",
    not subject.class.update and "^the parameter" or nil)
end

--- A parameter without dimensions is updated; by an elementwise rule as one of a single element.
function pieces.no_dimension(subject)
  if not subjects.accepts(subject.class, {}) then return false, "they are not accepted" end
  local one = trial.new(subject, { pieces = { { name = "p1", shape = {}, first = 0 } } })
  local before = one.pieces[1].tensor:item()
  one:run(UPDATES)
  if one.pieces[1].tensor:item() == before then error("the parameter is not updated", 0) end
  if not elementwise(subject) or not subjects.accepts(subject.class, { 1 }) then return nil end
  local other = trial.new(subject, { pieces = { { name = "p1", shape = { 1 }, first = 0 } } }):run(UPDATES)
  trial.same_elements(one, other, "of 0 and of 1 dimension")
end

--- A gradient that is a view of another tensor counts as its copy does.
function pieces.strided(subject)
  local dense, strided = trial.new(subject), trial.new(subject)
  strided.strided = true
  if #subject.shapes == 1 and #subject.shapes[1] == 0 then return false, "there is one layout of a single element" end
  trial.same(dense:run(UPDATES):picture(), strided:run(UPDATES):picture(), "dense and strided gradients")
end

return pieces
