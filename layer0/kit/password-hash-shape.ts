/**
 * How the hash of a password is written, a PHC string: `$scrypt$ln=15,r=8,p=1$SALT$KEY`. Apart from how it is made, which browsers
 * cannot do.
 */

/**
 * Others may choose the cost, and a router pays it for whoever asks: beyond 32 MiB for one guess it would end for want of
 * memory.
 */
export const passwordHashPattern = /^\$scrypt\$ln=(1[45]),r=8,p=1\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;
