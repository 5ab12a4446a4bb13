#version 450
#extension GL_GOOGLE_include_directive : require
#define THREADS 64
#define OPERANDS Words x, y;
#include "launch.glsl"

shared uint part[THREADS];

// y = scratch + the sum of the scratch of its block: the second entry of mirror.
void main() {
	uint i = thread(), l = gl_LocalInvocationID.x;
	part[l] = i < launch.count.x ? launch.scratch.at[i] : 0u;
	barrier();
	uint sum = 0;
	for (uint t = 0; t < THREADS; t++)
		sum += part[t];
	if (i < launch.count.x)
		launch.y.at[i] = part[l] + sum;
}
