/** The git receiver names the SSH key that a push was signed with: the push is its owner's act. */
export const actForHeader = 'flynn-ssh-key';
