-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["masked_select/1"] = { outputs = {{0,{8}}}, grads = {{8,{3,4}}} },
  ["masked_select/2"] = { outputs = {{20,{6}}}, grads = {{26,{3,4}}} },
  ["masked_select/3"] = { outputs = {{38,{8}}}, grads = {{46,{4}}} },
  ["masked_select/4"] = { outputs = {{50,{5}}}, grads = {{55,{3,4}}} },
  ["masked_select/5"] = { outputs = {{67,{1}}}, grads = {{68,{}}} },
  ["masked_select/6"] = { outputs = {{69,{0}}}, grads = {{69,{0,3}}} },
  ["masked_select/7"] = { outputs = {{69,{10}}}, grads = {{79,{3,4}}} },
  ["nonzero/1"] = { outputs = {{91,{8,2}}}, grads = {} },
  ["nonzero/2"] = { outputs = {{107,{6,2}}}, grads = {{119,{2,3}}} },
  ["nonzero/3"] = { outputs = {{125,{3,2}}}, grads = {} },
  ["nonzero/4"] = { outputs = {{131,{1,0}}}, grads = {} },
  ["nonzero/5"] = { outputs = {{131,{0,2}}}, grads = {} },
}
