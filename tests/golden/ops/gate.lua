-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["prelu/1"] = { outputs = {{0,{3,4}}}, grads = {{12,{3,4}},{24,{1}}} },
  ["prelu/2"] = { outputs = {{25,{2,3,4}}}, grads = {{49,{2,3,4}},{73,{3}}} },
  ["prelu/3"] = { outputs = {{76,{3,4}}}, grads = {{88,{3,4}},{100,{4}}} },
  ["prelu/4"] = { outputs = {{104,{}}}, grads = {{105,{}},{106,{1}}} },
  ["prelu/5"] = { outputs = {{107,{5}}}, grads = {{112,{5}},{117,{1}}} },
  ["prelu/6"] = { outputs = {{118,{3,4}}}, grads = {{130,{3,4}},{142,{4}}} },
  ["prelu/7"] = { outputs = {{146,{0,3}}}, grads = {{146,{0,3}},{146,{3}}} },
  ["prelu/8"] = { outputs = {{149,{3,4}}}, grads = {{161,{3,4}},{173,{}}} },
  ["glu/1"] = { outputs = {{174,{3,2}}}, grads = {{180,{3,4}}} },
  ["glu/2"] = { outputs = {{192,{2,3}}}, grads = {{198,{4,3}}} },
  ["glu/3"] = { outputs = {{210,{2,2,3}}}, grads = {{222,{2,4,3}}} },
  ["glu/4"] = { outputs = {{246,{3}}}, grads = {{249,{6}}} },
  ["glu/5"] = { outputs = {{255,{0,2}}}, grads = {{255,{0,4}}} },
  ["glu/6"] = { outputs = {{255,{3,2}}}, grads = {{261,{3,4}}} },
  ["glu/7"] = { outputs = {{273,{3,2}}}, grads = {{279,{3,4}}} },
}
