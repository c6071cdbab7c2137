-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["var/1"] = { outputs = {{0,{}}}, grads = {{1,{3,4}}} },
  ["var/2"] = { outputs = {{13,{4}}}, grads = {{17,{3,4}}} },
  ["var/3"] = { outputs = {{29,{3,1}}}, grads = {{32,{3,4}}} },
  ["var/4"] = { outputs = {{44,{1,3,1}}}, grads = {{47,{2,3,4}}} },
  ["var/5"] = { outputs = {{71,{}}}, grads = {{72,{}}} },
  ["var/6"] = { outputs = {{73,{4}}}, grads = {{77,{3,4}}} },
  ["var/7"] = { outputs = {{89,{}}}, grads = {{90,{3,3}}} },
  ["var/8"] = { outputs = {{99,{0}}}, grads = {{99,{0,3}}} },
  ["std/1"] = { outputs = {{99,{}}}, grads = {{100,{3,4}}} },
  ["std/2"] = { outputs = {{112,{4}}}, grads = {{116,{3,4}}} },
  ["std/3"] = { outputs = {{128,{3,1}}}, grads = {{131,{3,4}}} },
  ["std/4"] = { outputs = {{143,{1,3,1}}}, grads = {{146,{2,3,4}}} },
  ["std/5"] = { outputs = {{170,{}}}, grads = {{171,{}}} },
  ["std/6"] = { outputs = {{172,{4}}}, grads = {{176,{3,4}}} },
  ["std/7"] = { outputs = {{188,{}}}, grads = {{189,{3,3}}} },
  ["std/8"] = { outputs = {{198,{0}}}, grads = {{198,{0,3}}} },
}
