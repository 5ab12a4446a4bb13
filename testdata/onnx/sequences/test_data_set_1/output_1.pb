
shorterJwÑ¿ÊF?