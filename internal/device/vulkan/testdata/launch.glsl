// What each kernel is launched with: see target.Binary.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(local_size_x = THREADS) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Report { uvec2 number, value, least, most; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Arguments {
	OPERANDS
	uvec2 count, rounds;
	Words scratch;
	Report report;
};
layout(push_constant) uniform Launch { Arguments launch; };

uint thread() {
	return (gl_WorkGroupID.y * 32768u + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
}
