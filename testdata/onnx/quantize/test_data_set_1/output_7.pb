BblockedJ`|ãŠAºœAÆ8ÞA4ynÂD`œ@
½ÁyxÙÂ3‹Â£¤×BRÆBZÂ}ÂÌöÂjA¾L¹A-¾Áî~Bî~Â><áBu,B¢†Â±¦kÂË…	BaàÁÛHB