/**
 * How the hash of a password is written, a PHC string: `$scrypt$ln=15,r=8,p=1$SALT$KEY`. Apart from how it is made, which browsers
 * cannot do.
 */

/** Costs that others chose are no more than could be meant. */
export const passwordHashPattern = /^\$scrypt\$ln=(1[4-7]),r=8,p=1\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;
