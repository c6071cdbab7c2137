-- Functions that optimizers with closures go down: those of golden/make_lbfgs.py, of two tensors that are taken as one vector.
local optlua = require "optlua"

local valleys = { start = { -1.2, 1, 0.5, -0.7, 1.5 } }

function valleys.rosenbrock(x)
  local z = optlua.cat(x)
  local head, tail = z[{ { 1, -2 } }], z[{ { 2, -1 } }]
  return (100 * (tail - head ^ 2) ^ 2 + (1 - head) ^ 2):sum()
end

function valleys.quadratic(x)
  local z = optlua.cat(x)
  local scale = {}
  for i = 1, #z do scale[i] = 10 ^ ((i - 1) * (3 / (#z - 1))) end
  return 0.5 * (optlua.tensor(scale, { dtype = z.dtype }) * (z - 1) ^ 2):sum()
end

function valleys.valley(x)
  local z = optlua.cat(x)
  return ((0.3 * z):exp() + (-z):exp() + 0.5 * (3 * z):sin()):sum() + 0.1 * (z:sum() - 1) ^ 2
end

function valleys.kink(x)
  local z = optlua.cat(x)
  return ((z - 0.3):abs() ^ 1.2):sum() + 0.01 * (z ^ 2):sum()
end

--- The numbers of a line of a golden file.
function valleys.numbers(line)
  local list = {}
  for word in line:gmatch "%S+" do list[#list + 1] = assert(tonumber(word)) end
  return list
end

--- A parameter of three elements and one of two, as { name, tensor } each; and the tensors.
function valleys.parameters(start, dtype)
  local x = optlua.tensor(table.move(start, 1, 3, 1, {}), { dtype = dtype or "float64", requires_grad = true })
  local y = optlua.tensor(table.move(start, 4, 5, 1, {}), { dtype = dtype or "float64", requires_grad = true })
  return { { "x", x }, { "y", y } }, { x, y }
end

--- The closure of a step down one of the functions.
function valleys.closure(optimizer, name, tensors)
  return function()
    optimizer:zero_grad()
    local loss = valleys[name](tensors)
    loss:backward()
    return loss
  end
end

--- The elements of all tensors.
function valleys.values(tensors) return optlua.cat(tensors):detach():totable() end

return valleys
