-- Recurrent networks: lengths, packing, names, forms of a call, bad input. Numbers are the shared tests'.
local fails = require("fails").containing
local optlua = require "optlua"
local nn = optlua.nn
local rnn = nn.utils.rnn

local function random(...) return optlua.randn({ ... }, { dtype = "float64" }) end
local function int64(list) return optlua.tensor(list, { dtype = "int64" }) end
local function shape(x) return { table.unpack(x.shape) } end

local function near(a, b)
  assert.same(shape(a), shape(b))
  assert.is_true((a - b):abs():amax():item() <= 1e-12)
end

local classes = { "RNN", "GRU", "LSTM" }

local function layer(name, ...) return nn[name](...):to "float64" end

--- The state as a list of tensors.
local function states(state) return optlua.is_tensor(state) and { state } or state end

before_each(function() optlua.manual_seed(5) end)

describe("recurrent layers", function()
  it("go through rows of different lengths as through each row alone", function()
    for _, name in ipairs(classes) do
      local net = layer(name, 3, 2, 2, { bidirectional = true })
      local x, lengths = random(5, 3, 3), { 4, 5, 1 }
      local output, state = net(x, nil, { lengths = lengths })
      for b, length in ipairs(lengths) do
        local alone, last = net(x:narrow(1, 1, length):select(2, b))
        near(output:select(2, b):narrow(1, 1, length), alone)
        assert.equal(0, output:select(2, b):narrow(1, length + 1, 5 - length):abs():sum():item())
        for k, s in ipairs(states(state)) do near(s:select(2, b), states(last)[k]) end
      end
    end
  end)

  it("take a PackedSequence, and give one in the same order", function()
    for _, name in ipairs(classes) do
      for _, batch_first in ipairs { false, true } do
        local net = layer(name, 3, 2, { bidirectional = true, batch_first = batch_first })
        local x, lengths = random(4, 4, 3), int64 { 2, 4, 1, 2 }
        x.requires_grad = true
        local output, state = net(x, nil, { lengths = lengths });
        (output * output):sum():backward()
        local expected = x.grad
        x.grad = nil
        local packed = rnn.pack_padded_sequence(x, lengths, { batch_first = batch_first, enforce_sorted = false })
        local result, last = net(packed)
        local padded, found = rnn.pad_packed_sequence(result, { batch_first = batch_first })
        near(padded, output)
        assert.same(lengths:totable(), found:totable())
        for k, s in ipairs(states(state)) do near(states(last)[k], s) end
        (padded * padded):sum():backward()
        near(x.grad, expected)
      end
    end
  end)

  it("go on from a state as if there had been no break", function()
    for _, name in ipairs(classes) do
      local net, x = layer(name, 3, 2, 2), random(6, 2, 3)
      local whole, last = net(x)
      local first, between = net(x:narrow(1, 1, 2))
      local second, final = net(x:narrow(1, 3, 4), between)
      near(optlua.cat({ first, second }, 1), whole)
      for k, s in ipairs(states(last)) do near(states(final)[k], s) end
    end
  end)

  it("are cells, step by step", function()
    for _, name in ipairs(classes) do
      local net, cell, x = layer(name, 3, 2), layer(name .. "Cell", 3, 2), random(4, 2, 3)
      local weights = {}
      for key, value in pairs(net:state_dict()) do weights[key:gsub("_l0", "")] = value end
      cell:load_state_dict(weights)
      local h, c
      for t = 1, 4 do h, c = cell(x[t], c and { h, c } or h) end
      local last = states((select(2, net(x))))
      near(last[1][1], h)
      if c then near(last[2][1], c) end
    end
  end)

  it("have the same bits on any number of threads, forward and backward", function()
    local before = optlua.get_num_threads()
    local function bits(net, x, lengths, threads)
      optlua.set_num_threads(threads)
      net:zero_grad()
      x.grad = nil
      local y = net(x, nil, { lengths = lengths })
      y:backward(y:detach())
      local list = { y:detach(), x.grad }
      for parameter, tensor in net:named_parameters() do -- BLAS takes the others' sums on as many threads as it likes
        if not parameter:find "weight_hh" then list[#list + 1] = tensor.grad:clone() end
      end
      return list
    end
    for _, name in ipairs(classes) do
      for _, batch in ipairs { 9, 19, 40, 67 } do
        local net, x, lengths = layer(name, 3, 40, { bidirectional = true }), random(5, batch, 3), {}
        for b = 1, batch do lengths[b] = b % 6 end
        x.requires_grad = true
        local one = bits(net, x, lengths, 1)
        for threads = 2, 4 do
          for k, tensor in ipairs(bits(net, x, lengths, threads)) do
            assert.is_true(optlua.equal(one[k], tensor), ("%s, %d rows, %d threads, %d"):format(name, batch, threads, k))
          end
        end
      end
    end
    optlua.set_num_threads(before)
  end)

  it("drop between layers while training", function()
    local net, x = nn.GRU(3, 4, 2, { dropout = 0.5 }), optlua.randn(5, 2, 3)
    local one, two = net(x), net(x)
    assert.are_not.same(one:totable(), two:totable())
    net:eval()
    one, two = net(x), net(x)
    assert.same(one:totable(), two:totable())
  end)

  it("have PyTorch's names in its order, and print as it does", function()
    local names = {}
    for name in nn.LSTM(3, 2, 2, { bidirectional = true }):named_parameters() do names[#names + 1] = name end
    local expected = {}
    for _, suffix in ipairs { "l0", "l0_reverse", "l1", "l1_reverse" } do
      for _, part in ipairs { "weight_ih", "weight_hh", "bias_ih", "bias_hh" } do
        expected[#expected + 1] = part .. "_" .. suffix
      end
    end
    assert.same(expected, names)
    assert.equal("LSTM(3, 2, num_layers=2, batch_first=true)", tostring(nn.LSTM(3, 2, 2, { batch_first = true })))
    assert.same({ 8, 4 }, shape(nn.LSTM(3, 2, 2, { bidirectional = true }).weight_ih_l1))
  end)

  it("name what does not fit", function()
    local net, x = nn.LSTM(3, 2), optlua.ones(5, 4, 3)
    local h = optlua.zeros(1, 4, 2)
    fails("nn.LSTM: input has shape (5, 4, 2), wants (steps, batch, 3)", net, optlua.ones(5, 4, 2))
    fails("nn.LSTM: h has shape (4, 2), wants (1, 4, 2)", net, x, { h[1], h[1] })
    fails("nn.LSTM: the initial state is a list of two tensors { h, c }", net, x, h)
    fails("nn.GRU: the initial state is a tensor h, got table", nn.GRU(3, 2), x, { h, h })
    fails("lengths[2] is 6, outside 0 … 5", net, x, nil, { lengths = { 5, 6, 1, 1 } })
    fails("lengths is int64 (2), wants int64 (4)", net, x, nil, { lengths = { 5, 5 } })
    fails("nn.LSTM: unknown option \"length\" (did you mean \"lengths\"?)", net, x, nil, { length = { 5 } })
    fails("nn.LSTM: num_layers: expected an integer at least 1 and at most 10000, got 0", nn.LSTM, 3, 2, 0)
    fails("nn.LSTM: dropout: expected a number at least 0 and at most 1, got 2", nn.LSTM, 3, 2, { dropout = 2 })
    fails("nn.RNN: nonlinearity: expected one of \"tanh\", \"relu\"; got \"gelu\"", nn.RNN, 3, 2, 1, "gelu")
    fails("nn.GRUCell: input has shape (4, 2), wants (batch, 3) or (3)", nn.GRUCell(3, 2), optlua.ones(4, 2))
  end)
end)

describe("utils.rnn", function()
  local function sequences() return { random(2, 3), random(4, 3), random(1, 3) } end

  it("pads to the longest, on either side", function()
    local list = { optlua.tensor { 1, 2 }, optlua.tensor { 3 } }
    assert.same({ { 1, 3 }, { 2, 0 } }, rnn.pad_sequence(list):totable())
    assert.same({ { 1, 2 }, { 3, -1 } }, rnn.pad_sequence(list, { batch_first = true, padding_value = -1 }):totable())
    assert.same({ { 1, 2 }, { 0, 3 } }, rnn.pad_sequence(list, { batch_first = true, padding_side = "left" }):totable())
  end)

  it("packs one step after another, the longest first", function()
    local packed = rnn.pack_sequence({ optlua.tensor { 1, 2 }, optlua.tensor { 3, 4, 5 } }, { enforce_sorted = false })
    assert.same({ 3, 1, 4, 2, 5 }, packed.data:totable())
    assert.same({ 2, 2, 1 }, packed.batch_sizes:totable())
    assert.same({ 1, 0 }, packed.sorted_indices:totable())
    assert.same({ 1, 0 }, packed.unsorted_indices:totable())
  end)

  it("unpacks what it packed", function()
    local list = sequences()
    local packed = rnn.pack_sequence(list, { enforce_sorted = false })
    for k, sequence in ipairs(rnn.unpack_sequence(packed)) do near(sequence, list[k]) end
    local padded, lengths = rnn.pad_packed_sequence(packed, { batch_first = true, total_length = 6, padding_value = 7 })
    assert.same({ 3, 6, 3 }, shape(padded))
    assert.same({ 2, 4, 1 }, lengths:totable())
    assert.same({ 7, 7, 7 }, padded[3][2]:totable())
  end)

  it("names what does not fit", function()
    local x = random(4, 3, 2)
    fails("lengths must fall; or pass { enforce_sorted = false }", rnn.pack_padded_sequence, x, { 2, 4, 1 })
    fails("lengths[1] is 5, outside 1 … 4", rnn.pack_padded_sequence, x, { 5, 4, 1 })
    fails("lengths[3] is 0, outside 1 … 4", rnn.pack_padded_sequence, x, { 4, 4, 0 })
    fails("lengths: expected 3 numbers, got 2", rnn.pack_padded_sequence, x, { 4, 4 })
    fails("a PackedSequence expected", rnn.pad_packed_sequence, x)
    fails("total_length is 1, less than the 4 steps", rnn.pad_packed_sequence,
      rnn.pack_padded_sequence(x, { 4, 2, 1 }), { total_length = 1 })
    fails("pad_sequence: a list of tensors expected", rnn.pad_sequence, {})
  end)
end)
