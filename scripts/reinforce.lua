-- Reinforcement learning: a policy learns to balance a pole on a cart, a world of a dozen lines of Lua.
-- REINFORCE with a learned baseline (Williams, 1992): tens of thousands of tiny steps, a forward pass each.
--   optlua scripts/reinforce.lua                            until the last 100 episodes last 475 ticks on average
--   optlua scripts/reinforce.lua --goal 100 --episodes 300  a shorter try
local optlua = require "optlua"
local nn, optim, Categorical = optlua.nn, optlua.optim, optlua.distributions.Categorical

local config = optlua.config {
  seed = 0, episodes = 1000, goal = 475, limit = 500, discount = 0.99, lr = 1e-2,
}
optlua.manual_seed(config.seed)
math.randomseed(config.seed)

-- The world (Barto, Sutton & Anderson, 1983). A state is { place, speed, angle, turning speed }, in m, rad and s.
local gravity, mass, pole_mass, half_length, push, tick = 9.8, 1.1, 0.1, 0.5, 10, 0.02

local function start()
  local state = {}
  for i = 1, 4 do state[i] = 0.1 * math.random() - 0.05 end
  return state
end

--- The state after a push to the left (0) or right (1), and whether the pole has fallen or the cart run off.
local function move(state, action)
  local place, speed, angle, spin = table.unpack(state)
  local sin, cos = math.sin(angle), math.cos(angle)
  local thrust = ((2 * action - 1) * push + pole_mass * half_length * spin ^ 2 * sin) / mass
  local turn = (gravity * sin - cos * thrust) / (half_length * (4 / 3 - pole_mass * cos ^ 2 / mass))
  local force = thrust - pole_mass * half_length * turn * cos / mass
  local after = { place + tick * speed, speed + tick * force, angle + tick * spin, spin + tick * turn }
  return after, math.abs(after[1]) > 2.4 or math.abs(after[3]) > math.rad(12)
end

-- The policy rates both pushes; the critic guesses what is still to be won from a state.
local policy = nn.Sequential { nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2) }
local critic = nn.Sequential { nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1) }
local optimizers = optim.container({ { "policy", policy }, { "critic", critic } }, optim.Adam, { lr = config.lr })

--- How the policy would push in some states, (…, 4): a distribution over left and right.
local function pushes(states) return Categorical { logits = policy(states) } end
local function dice(distribution) return distribution:sample() end
local function best(distribution) return distribution.mode end

--- One episode: the states that were met and what was done in them. It is worth 1 for each tick that it lasts.
local function play(choose)
  local states, actions = {}, {}
  local state, over = start(), false
  while not over and #states < config.limit do
    local action = choose(pushes(optlua.tensor(state))):item()
    states[#states + 1], actions[#actions + 1] = state, action
    state, over = move(state, action)
  end
  return states, actions
end

--- What was still won from each tick on, discounted.
local function returns(ticks)
  local won, sum = {}, 0
  for t = ticks, 1, -1 do
    sum = 1 + config.discount * sum
    won[t] = sum
  end
  return won
end

--- Makes what went better than the critic guessed more likely, and the critic wiser.
local function learn(states, actions)
  local won = optlua.tensor(returns(#states))                                                  -- (T)
  states, actions = optlua.tensor(states), optlua.tensor(actions, "int64")                     -- (T,4), (T)
  local guess = critic(states):squeeze(2)                                                      -- (T)
  local praise = pushes(states):log_prob(actions) * (won - guess):detach()
  local loss = 0.5 * nn.functional.mse_loss(guess, won) - praise:mean()
  optimizers:zero_grad()
  loss:backward()
  optimizers:step()
end

local lasted, total, mean = {}, 0, 0
for episode = 1, config.episodes do
  local states, actions = optlua.no_grad(play, dice)
  learn(states, actions)
  lasted[episode], total = #states, total + #states
  mean = (mean * math.min(episode - 1, 100) + #states - (lasted[episode - 100] or 0)) / math.min(episode, 100)
  local done = episode >= 100 and mean >= config.goal or episode == config.episodes
  if episode % 50 == 0 or done then
    print(("episode %4d  ticks %6d  mean return of the last 100 %5.1f"):format(episode, total, mean))
  end
  if done then break end
end

local sum = 0
for _ = 1, 20 do sum = sum + #optlua.no_grad(play, best) end
print(("mean return of 20 episodes without dice %.1f"):format(sum / 20))
